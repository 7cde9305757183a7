// When to close the batch that is forming, and with how many images.
#pragma once

#include <variant>
#include <vector>

#include "server/core/clock.h"
#include "server/scheduler/batch.h"
#include "server/scheduler/latency_model.h"

namespace fovea {

// Pure: no clock, no lock, no thread. The dispatcher asks, the policy answers.
//
// A batch forms in the line: its tasks can still leave, and others can still overtake them, until
// an instance is there to run it. So nothing closes while the device is busy, and batch peers
// gather meanwhile. With an idle device it closes
//   - at a preferred size, the largest that can be formed, or when as many wait as all batches that
//     can start now have room for;
//   - when by the latency curve a later start would miss the earliest deadline;
//   - when somebody in line has waited for the queue delay, which may be none.
// It takes no more images than were planned for it (PlanBatch), and than the earliest deadline
// leaves time for. A deadline of a lower priority keeps tasks of lower priorities out of the batch,
// never one of the first's own.
class BatchPolicy {
 public:
  struct Options {
    int max_batch_size = 1;
    std::vector<int> preferred_batch_sizes;
    Nanos max_queue_delay = 0;
  };

  struct Snapshot {
    int images = 0;          // in line for this batch, also more than it can take; >= 1
    int most_images = 1;     // that it may take: its part where others take the rest, or what pays
    int room = 1;            // for images, in all batches that could start now
    Nanos longest_wait = 0;  // of anybody in line, also those of another shape
    // Of those that would be in it and stand with the first: in its priority, and delayed as it is.
    int first_images = 1;
    Nanos first_deadline = kNever;   // the earliest of theirs
    Nanos behind_deadline = kNever;  // the earliest of the others that would be in it
    bool device_idle = false;        // an instance waits for work
    bool draining = false;           // the queue takes no more work
    const LatencyModel* latency = nullptr;
  };

  struct Close {
    int images;  // at most; at least 1
    CloseReason why;
  };
  struct WaitUntil {
    Nanos when;  // kNever: until the snapshot changes
  };
  using Decision = std::variant<Close, WaitUntil>;

  explicit BatchPolicy(Options options);

  Decision Next(const Snapshot& queue, Nanos now) const;

 private:
  // The largest size up to `images` that is run by the earliest deadline of those that are in it.
  int FitToDeadline(int images, const Snapshot& queue, Nanos now) const;

  Options options_;
};

}  // namespace fovea
