// The threads around the Dispatcher: its lock, the thread of each instance, and one thread for
// time.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"
#include "server/scheduler/dispatcher.h"
#include "server/scheduler/model_queue.h"
#include "server/scheduler/options.h"

namespace fovea {

// Thread-safe. Shared by the scheduler, its queues, and the reservations and tickets that outlive
// them; those only ever find that their queue is gone.
//
// Whoever changes something - a caller that enqueues, an instance whose batch is done - takes the
// lock, lets the Dispatcher decide, and when the lock is released wakes just the instances that
// were given a batch and gives back just the tasks that were dropped. Nobody polls, and no thread
// stands between a caller and an idle instance.
class Device : public std::enable_shared_from_this<Device> {
 public:
  Device(const SchedulerOptions& options, Clock& clock);

  // The thread for time runs between these two. Every queue is removed before Shutdown.
  // UNAVAILABLE (server.no_thread): the system has no more threads.
  absl::Status Startup();
  void Shutdown();

  // The options are valid. UNAVAILABLE (server.no_thread): the system has no more threads.
  absl::StatusOr<QueueId> AddQueue(const ModelQueueOptions& options, BatchCallback run);
  // Drains, then ends the queue's threads. Not on a thread of that queue.
  void RemoveQueue(QueueId queue, Nanos drain_until);

  // As the functions of ModelQueue, Ticket and Reservation.
  absl::StatusOr<Reservation> Reserve(QueueId queue, const TaskOutline& outline);
  void Release(QueueId queue, TaskId task);
  void Enqueue(Reservation reservation, std::unique_ptr<Task> task);
  void NotifyCancelled(QueueId queue, TaskId task);
  void RecordLatency(QueueId queue, const BatchSize& batch, Nanos duration);
  Nanos LeastRunTime(QueueId queue, const BatchSize& batch) const;
  absl::Status Drain(QueueId queue, Nanos until);
  ModelQueue::Depth depth(QueueId queue) const;
  bool OthersWait(QueueId queue) const;
  // As Scheduler::AwaitIdle.
  bool AwaitIdle(Nanos until);

  const SchedulerOptions& options() const { return options_; }
  Clock& clock() const { return clock_; }

 private:
  // One thread that runs batches. Guarded by mutex_, but for `thread`.
  struct Instance {
    CondVar wake;
    std::unique_ptr<Batch> next;  // to be run
    bool stop = false;
    std::thread thread;
  };
  // The worker threads of one queue.
  struct Workers {
    BatchCallback run;
    std::function<void(int instance)> on_idle;  // may be empty
    Nanos idle_after = kNever;
    std::vector<std::shared_ptr<Instance>> instances;
    // Guarded by mutex_:
    int dropping = 0;       // tasks that are being given back
    int drain_waiters = 0;  // calls of Drain under way
    CondVar settled;        // notified when something ended, for those
  };
  // What follows from a decision and must not be done under the lock.
  struct Outbox {
    absl::InlinedVector<std::shared_ptr<Instance>, 2> wake;
    bool wake_timer = false;
    std::vector<Dispatcher::Dropped> drops;
    std::vector<CancellationPtr> yields;
  };

  // Lets the dispatcher decide, hands batches to instances, and fills the outbox.
  void Decide(Nanos now, Outbox* outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deliver(Outbox outbox) ABSL_LOCKS_EXCLUDED(mutex_);
  void NotifyIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NotifyDrain(Workers& workers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Workers* FindWorkers(QueueId queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nothing waits, is reserved, runs or is being given back.
  bool Settled(QueueId queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The instance's next batch; null where it is to stop, or where none has come until `until`.
  std::unique_ptr<Batch> AwaitBatch(Instance& instance, Nanos until) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunInstance(QueueId queue, int index, Instance& instance, const Workers& workers);
  void RunTimer();

  const SchedulerOptions options_;
  Clock& clock_;

  mutable Mutex mutex_;
  Dispatcher dispatcher_ ABSL_GUARDED_BY(mutex_);
  std::map<QueueId, std::shared_ptr<Workers>> workers_ ABSL_GUARDED_BY(mutex_);
  CondVar idle_;  // notified when the dispatcher is, for those that wait
  int idle_waiters_ ABSL_GUARDED_BY(mutex_) = 0;
  CondVar timer_wake_;
  Nanos timer_until_ ABSL_GUARDED_BY(mutex_) = kNever;  // when the timer lets the dispatcher decide
  bool timer_stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread timer_;
};

}  // namespace fovea
