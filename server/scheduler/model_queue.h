// The entry to one model: reserve a place, put a task in line, cancel it.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/clock.h"
#include "server/scheduler/batch.h"
#include "server/scheduler/task.h"

namespace fovea {

class Device;
using QueueId = uint64_t;

// Runs a batch to its end, on its instance's thread: every task of it has its answer when this
// returns. Owns the batch. Must not throw, and must not destroy the batch's own ModelQueue.
using BatchCallback = std::function<RunOutcome(std::unique_ptr<Batch>)>;

// Names a task to its queue. Cheap to copy; may outlive task, queue and scheduler.
class Ticket {
 public:
  Ticket() = default;  // names nothing

  // Tells the queue that the task's Cancelled() is true now: a task still in line leaves it and is
  // dropped, on this thread. Nothing happens to one that is not in line. Thread-safe.
  void NotifyCancelled() const;

 private:
  friend class Device;
  friend class Reservation;
  friend class ModelQueue;

  Ticket(std::shared_ptr<Device> device, QueueId queue, TaskId task)
      : device_(std::move(device)), queue_(queue), task_(task) {}

  std::shared_ptr<Device> device_;
  QueueId queue_ = 0;
  TaskId task_ = 0;
};

// A place in a queue, given up when this is destroyed. Move-only; may outlive queue and scheduler.
class [[nodiscard]] Reservation {
 public:
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  const Ticket& ticket() const { return ticket_; }

 private:
  friend class Device;
  friend class ModelQueue;

  explicit Reservation(Ticket ticket) : ticket_(std::move(ticket)) {}
  void Release();

  Ticket ticket_;
};

// The queue of one model and the threads of its instances. It accepts, then drains, then is
// stopped. Thread-safe, but for the destructor.
class ModelQueue {
 public:
  // Accepts no more and lets what was accepted finish, for at most drain_timeout_us, then drops
  // what still waits (UNAVAILABLE) and joins the instances' threads, each after the batch that it
  // is running. When it returns every task was run or dropped. Not on a thread of this queue:
  // nothing that a task or a callback owns may own the queue.
  ~ModelQueue();
  ModelQueue(const ModelQueue&) = delete;
  ModelQueue& operator=(const ModelQueue&) = delete;

  // A place for a task that will be as `outline` says, before anything of it is decoded. Returns
  // quickly. Fails with
  //   INVALID_ARGUMENT (queue.bad_batch, queue.bad_priority): images not in 1 .. max_batch_size, a
  //     priority without a policy;
  //   DEADLINE_EXCEEDED (queue.expired): the deadline has passed;
  //   DEADLINE_EXCEEDED (queue.unreachable_deadline): by this model's measured latency, by what is
  //     in line and by what other models usually take, the task would finish after its deadline;
  //   UNAVAILABLE (queue.full): no place of its priority is left;
  //   UNAVAILABLE (queue.draining): the queue takes no more work;
  //   UNAVAILABLE (queue.not_idle): it is for an idle device, which this is not.
  absl::StatusOr<Reservation> Reserve(const TaskOutline& outline);

  // Puts the task in line in its reserved place; from here on the queue owns it, and gives it to
  // the batch callback or drops it, exactly one of the two. Either may happen before this returns.
  // A reservation outlives its queue, so no queue is named here: where it has stopped the task is
  // dropped.
  static void Enqueue(Reservation reservation, std::unique_ptr<Task> task);

  // What the run of such a batch takes, measured elsewhere: the warm-up fills the latency curves
  // with it.
  void RecordLatency(const BatchSize& batch, Nanos duration);
  // What it hardly takes less than; 0 where that is not known.
  Nanos LeastRunTime(const BatchSize& batch) const;

  // Accepts no more, and waits until everything accepted is finished or steady time `until` has
  // come; then drops what still waits (UNAVAILABLE) and waits for running batches. Reservations
  // count as accepted. OK when nothing was dropped for lack of time, DEADLINE_EXCEEDED
  // (queue.drain_timeout) otherwise. May be called more than once.
  absl::Status Drain(Nanos until);

  struct Depth {
    int waiting = 0;   // tasks in line
    int reserved = 0;  // places held by requests that are not in line yet
    int running = 0;   // batches
  };
  Depth depth() const;
  // Whether requests of other queues of the scheduler have come that do not run yet.
  bool OthersWait() const;

 private:
  friend class Scheduler;
  ModelQueue(std::shared_ptr<Device> device, QueueId id, int64_t drain_timeout_us)
      : device_(std::move(device)), id_(id), drain_timeout_us_(drain_timeout_us) {}

  const std::shared_ptr<Device> device_;
  const QueueId id_;
  const int64_t drain_timeout_us_;
};

}  // namespace fovea
