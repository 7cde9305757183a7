// Every decision of the scheduler, without threads: it is stepped with a time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/scheduler/batch.h"
#include "server/scheduler/batch_policy.h"
#include "server/scheduler/batch_threads.h"
#include "server/scheduler/busy_threads.h"
#include "server/scheduler/concurrency_estimate.h"
#include "server/scheduler/fair_share.h"
#include "server/scheduler/latency_model.h"
#include "server/scheduler/observer.h"
#include "server/scheduler/options.h"
#include "server/scheduler/reservations.h"
#include "server/scheduler/task.h"
#include "server/scheduler/task_queue.h"

namespace fovea {

using QueueId = uint64_t;

// A queue goes one way.
enum class QueueState {
  kAccepting,
  kDraining,  // reserves no more; what has a place is still run
  kStopped,   // runs no more: nothing waits
};

// Not thread-safe. Never reads a clock: `now` does not go back from call to call.
//
// Whoever drives it - the Device with its threads, or a simulation with none - calls Next after
// every other call and when the time that Next told has come, starts the batches that it gives,
// tells when they are done, and gives dropped tasks back.
//
// A batch starts when an instance of its model is idle, the policy closes it, and the model is next
// in turn for the device (dispatcher_turn.cc). If the device has too few free threads for the model
// in turn they are kept for it: others that would fit wait as well, or a model that needs the whole
// device would never run. Models whose batches may get several numbers of threads share the free
// ones evenly with those that have a batch to start.
class Dispatcher {
 public:
  // The options are valid.
  explicit Dispatcher(const SchedulerOptions& options);

  QueueId AddQueue(const ModelQueueOptions& options);
  // It is stopped and runs nothing.
  void RemoveQueue(QueueId queue);

  // As ModelQueue::Reserve. The place is held until Release or until the task leaves the line.
  absl::StatusOr<TaskId> Reserve(QueueId queue, const TaskOutline& outline, Nanos now);
  // Gives up a reservation. Nothing for one that was used or is unknown, or for a queue that is
  // gone.
  void Release(QueueId queue, TaskId id);
  // Uses a reservation. The task is dropped where the queue has stopped or is gone, where its
  // caller has gone and where it has expired.
  void Enqueue(QueueId queue, TaskId id, std::unique_ptr<Task> task, Nanos now);
  // Drops the task if it is in line and was cancelled.
  void NotifyCancelled(QueueId queue, TaskId id);
  void RecordLatency(QueueId queue, const BatchSize& batch, Nanos duration, Nanos now);

  struct Start {
    QueueId queue;
    std::unique_ptr<Batch> batch;  // closed
  };
  struct Dropped {
    QueueId queue;  // which may be gone
    std::unique_ptr<Task> task;
    absl::Status why;
  };
  struct Work {
    absl::InlinedVector<Start, 2> starts;
    std::vector<Dropped> drops;
    std::vector<CancellationPtr> yields;  // of running work that makes way (Task::idle_only)
    Nanos wake_at = kNever;               // call Next again at this time, if nothing happens before
  };
  // What is to be done now.
  Work Next(Nanos now);

  // The batch that `instance` was given has run for `duration`. The latency curve learns from whole
  // runs only.
  void Done(QueueId queue, int instance, RunOutcome outcome, Nanos duration, Nanos now);
  // What the run of such a batch hardly takes less than; 0 where that is not known.
  Nanos LeastRunTime(QueueId queue, const BatchSize& batch, Nanos now) const;

  // Transitions of the queue's state; nothing where it is that far already.
  void Drain(QueueId queue);
  // Drops everything in line and forgets the reservations.
  void Stop(QueueId queue);

  // Work for an idle device is to make way: Next tells which.
  bool yielding() const { return !yields_.empty() || !drops_.empty(); }
  // Nothing is in line, reserved or running.
  bool idle() const;
  // Whether a queue other than `queue` has something in line or reserved.
  bool others_wait(QueueId queue) const;

  int waiting(QueueId queue) const { return Get(queue).line.size(); }
  int reserved(QueueId queue) const { return Get(queue).reserved.size(); }
  int running(QueueId queue) const { return Get(queue).running; }
  QueueState state(QueueId queue) const { return Get(queue).state; }

 private:
  struct Queue;
  // A model whose next batch is closed, and an instance of it idle.
  struct Ready {
    Queue* queue;
    BatchPolicy::Close close;
    int threads;
    Nanos run_time;  // by the latency curve
    Nanos start_by;  // to be in time for the earliest deadline in the batch; kNever: it has none
  };
  struct Turn {
    const Ready* ready;
    bool charged;  // the device time counts as a part of the model's share
  };
  struct Run {
    BatchSize batch;
    Nanos started_at;
    std::optional<Nanos> charged;  // device time, in advance; nullopt: this run is not charged
    bool idle_only = false;
  };
  struct Queue {
    Queue(QueueId id, const ModelQueueOptions& options);
    // The only transition function: ends the process unless `next` directly follows.
    void MoveTo(QueueState next);
    int priorities() const { return static_cast<int>(options.policies.size()); }
    int places(int priority) const { return line.size(priority) + reserved.size(priority); }
    // Where a task that comes at `now` stands inside its priority.
    Nanos OrderOf(const TaskOutline& outline, Nanos now) const;
    AllowedThreads allowed_threads() const {
      return {options.threads_per_batch, options.max_batch_size};
    }
    // Images that the free threads are to be divided for, of one shape: those in line, or as many
    // as are usually under way. Those of other shapes count as that one's: they want threads too.
    int ExpectedImages(uint64_t shape_key) const;
    // Whether its batches are filled, beyond what pays: its description has preferred sizes or a
    // queue delay, or `images`, of all shapes, in line and running, are as many as all its
    // instances hold at once.
    bool FillsBatches(int images) const;
    // A full batch on as many threads as the last one ran on.
    struct FullBatch {
      int images;
      int threads;
      const LatencyModel& latency;
      Nanos run_time() const { return latency.Typical(images); }
    };
    FullBatch LatestFullBatch(uint64_t shape_key) const;

    const QueueId id;
    const ModelQueueOptions options;
    const BatchPolicy policy;
    QueueState state = QueueState::kAccepting;
    LatencyModels latency;
    TaskQueue line;
    Reservations reserved;
    std::vector<std::optional<Run>> instances;  // nullopt: idle
    int running = 0;
    int running_images = 0;
    ConcurrencyEstimate concurrency;
    BusyThreads busy_threads;
  };

  Queue* Find(QueueId queue);
  const Queue& Get(QueueId queue) const;

  // Work for an idle device (dispatcher_idle.cc): the one task that has a place.
  struct IdleWork {
    QueueId queue;
    TaskId task;
    CancellationPtr running;  // not null: it runs
    bool yielded = false;     // something else has come
  };
  absl::StatusOr<TaskId> ReserveIdle(Queue& queue, const TaskOutline& outline, Nanos now);
  // Whether it is that work, and has made way before it came.
  bool HasYielded(QueueId queue, TaskId task) const;
  void YieldIdleWork();  // to what has just come
  void ForgetIdleWork(QueueId queue, TaskId task);

  absl::Status Admit(Queue& queue, const TaskOutline& outline, Nanos now);
  void Drop(Queue& queue, std::unique_ptr<Task> task, absl::Status why);
  void TakeExpired(Queue& queue, Nanos now);
  // Why the task is not to be run now that its turn has come; OK when it is. `least`: what it
  // hardly takes less than, 0 where that is not known.
  static absl::Status Refusal(const WaitingTask& task, Nanos least, Nanos now);
  // Drops the head of the line as long as it is not to be run.
  void ClearHead(Queue& queue, Nanos now);
  // `free_threads`: that the queue's next batch may take, if it can choose. `contended`: another
  // model has tasks in line and an idle instance. Then throughput counts more than the latency of a
  // batch, and batches are filled.
  std::variant<Ready, BatchPolicy::WaitUntil> Ask(Queue& queue, int free_threads, bool contended,
                                                  Nanos now) const;
  // Divides the free threads evenly among the models, as far as they can do with fewer.
  void ShareThreads(absl::Span<Ready> ready, Nanos now) const;
  // Whose batch starts next; `ready` is not empty.
  Turn NextTurn(absl::Span<const Ready> ready, Nanos now);
  // Whether a batch that is passed over now may miss its deadline, or has waited long enough.
  bool IsDue(const Ready& one, Nanos held_up, Nanos now) const;
  // Nullopt: none of the tasks is to be run after all, and they were dropped. Callers cancel at any
  // moment, also between the policy's look at the line and the taking.
  std::optional<Start> StartBatch(const Turn& turn, Nanos now);
  // When the next batches of this model on so many threads could start if no other model's came
  // before: as many as run side by side, ascending.
  using Starts = absl::InlinedVector<Nanos, 8>;
  Starts NextStarts(const Queue& queue, int threads, Nanos now) const;
  // The device time that everything in line takes, in full batches; without those of one shape,
  // where `except` names it.
  static Nanos DeviceTimeInLine(const Queue& queue, std::optional<uint64_t> except = std::nullopt);
  // When an arriving request would be finished.
  Nanos Forecast(const Queue& queue, const TaskOutline& outline, Nanos now) const;
  void TellDepth(const Queue& queue) const;

  const SchedulerOptions options_;
  int free_threads_;
  FairShare fair_share_;
  std::map<QueueId, Queue> queues_;
  QueueId last_queue_ = 0;
  TaskId last_task_ = 0;
  std::optional<IdleWork> idle_work_;
  std::vector<Dropped> drops_;  // since the last Next
  std::vector<CancellationPtr> yields_;
};

}  // namespace fovea
