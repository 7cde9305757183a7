// A batch: the tasks that one instance runs together.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "server/core/clock.h"
#include "server/scheduler/task.h"

namespace fovea {

// Why a batch was closed.
enum class CloseReason {
  kFull,       // as many wait as all batches that can start now have room for
  kPreferred,  // as many images as one of the preferred sizes
  kDeadline,   // waiting longer, or running more, would have missed the earliest deadline
  kDelay,      // the queue delay was used up while the device was idle
  kIdle,       // the device was idle and the queue has no delay
  kDrain,      // the queue is draining: batch peers are not waited for
};

// "full", "preferred", ...: the label of the metric.
std::string_view CloseReasonName(CloseReason reason);

// A batch goes one way.
enum class BatchState {
  kOpen,     // it is being made
  kClosed,   // its tasks have left the line
  kRunning,  // it is its callback's
  kDone,
};

// How a batch was run. Only a run in one piece tells what its size takes: one that was stopped
// because nobody waited for it any more is too short, one that failed and was run again in parts
// too long.
enum class RunOutcome { kWhole, kStopped, kBroken };

// Not thread-safe: it has one owner at a time. Once closed it is run: destroying a closed batch
// that was not ends the process.
struct Batch {
  std::vector<std::unique_ptr<Task>> tasks;  // in the order of the line
  int images = 0;                            // of all tasks together
  uint64_t shape_key = 0;                    // of all of them
  int threads = 1;                           // of the device, which are this batch's until it ends
  CloseReason why = CloseReason::kIdle;
  // 0 .. instances - 1 of its queue; an instance runs one batch at a time. The first that is idle:
  // the room of the others follows from that (AllowedThreads::MaxImagesOfInstance).
  int instance = 0;
  Nanos closed_at = 0;  // when its tasks left the line

  Batch() = default;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch();

  BatchState state() const { return state_; }
  // The only transition function: ends the process unless `next` directly follows the present
  // state.
  void MoveTo(BatchState next);

 private:
  BatchState state_ = BatchState::kOpen;
};

}  // namespace fovea
