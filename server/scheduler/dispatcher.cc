#include "server/scheduler/dispatcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "server/scheduler/refusal.h"

namespace fovea {
namespace {

BatchPolicy::Options PolicyOptions(const ModelQueueOptions& options) {
  return {.max_batch_size = options.max_batch_size,
          .preferred_batch_sizes = options.preferred_batch_sizes,
          .max_queue_delay = options.max_queue_delay_us * kMicrosecond};
}

}  // namespace

Dispatcher::Queue::Queue(QueueId id, const ModelQueueOptions& options)
    : id(id),
      options(options),
      policy(PolicyOptions(options)),
      line(options),
      instances(options.instances) {}

void Dispatcher::Queue::MoveTo(QueueState next) {
  FOVEA_CHECK(static_cast<int>(next) == static_cast<int>(state) + 1);
  state = next;
}

Dispatcher::Dispatcher(const SchedulerOptions& options)
    : options_(options),
      free_threads_(options.device_threads),
      fair_share_(options.fair_share_quantum_us * kMicrosecond) {}

QueueId Dispatcher::AddQueue(const ModelQueueOptions& options) {
  const QueueId id = ++last_queue_;
  queues_.try_emplace(id, id, options);
  fair_share_.Add(id, options.rate_limiter_priority);
  return id;
}

void Dispatcher::RemoveQueue(QueueId id) {
  const Queue& queue = Get(id);
  FOVEA_CHECK(queue.state == QueueState::kStopped && queue.running == 0);
  fair_share_.Remove(id);
  queues_.erase(id);
}

absl::StatusOr<TaskId> Dispatcher::Reserve(QueueId id, const TaskOutline& outline, Nanos now) {
  Queue& queue = *Find(id);
  if (outline.images < 1 || outline.images > queue.options.max_batch_size) {
    return refusal::BadBatch();
  }
  if (outline.priority < 0 || outline.priority >= queue.priorities()) return refusal::BadPriority();
  if (outline.idle_only) return ReserveIdle(queue, outline, now);
  YieldIdleWork();
  if (absl::Status admitted = Admit(queue, outline, now); !admitted.ok()) {
    if (queue.options.observer != nullptr) {
      queue.options.observer->OnRejected(outline.priority, refusal::CountedAs(admitted));
    }
    return admitted;
  }
  const TaskId task = ++last_task_;
  queue.reserved.Add(task, outline.priority, queue.OrderOf(outline, now), outline.images);
  TellDepth(queue);
  return task;
}

absl::Status Dispatcher::Admit(Queue& queue, const TaskOutline& outline, Nanos now) {
  if (queue.state != QueueState::kAccepting) return refusal::Draining();
  if (outline.deadline <= now) return refusal::Expired();
  const int most = queue.options.policies[outline.priority].max_queue_size;
  if (queue.places(outline.priority) >= most) TakeExpired(queue, now);
  if (queue.places(outline.priority) >= most) return refusal::Full();
  if (outline.deadline != kNever && queue.latency.Of(outline.shape_key).Trusted(now) &&
      Forecast(queue, outline, now) > outline.deadline) {
    return refusal::Unreachable();
  }
  return absl::OkStatus();
}

void Dispatcher::Release(QueueId id, TaskId task) {
  Queue* queue = Find(id);
  ForgetIdleWork(id, task);
  if (queue != nullptr && queue->reserved.Take(task)) TellDepth(*queue);
}

void Dispatcher::Enqueue(QueueId id, TaskId task_id, std::unique_ptr<Task> task, Nanos now) {
  Queue* queue = Find(id);
  if (queue == nullptr || !queue->reserved.Take(task_id)) {
    const bool yielded = HasYielded(id, task_id);
    ForgetIdleWork(id, task_id);
    drops_.push_back({id, std::move(task), yielded ? refusal::NotIdle() : refusal::Draining()});
    return;
  }
  FOVEA_CHECK(task->images() >= 1 && task->images() <= queue->options.max_batch_size);
  if (task->Cancelled()) {
    Drop(*queue, std::move(task), refusal::CallerGone());
  } else if (task->idle_only() != nullptr) {
    queue->line.Add(task_id, std::move(task), now);
  } else {
    const LatencyModels::Shape& shape = queue->latency.Of(task->shape_key());
    queue->concurrency.OnArrival(task->images(), queue->line.images() + queue->running_images,
                                 shape.On(shape.latest_threads()).Typical(1), now);
    queue->line.Add(task_id, std::move(task), now);
  }
  TellDepth(*queue);
}

void Dispatcher::NotifyCancelled(QueueId id, TaskId task) {
  Queue* queue = Find(id);
  if (queue == nullptr) return;
  const WaitingTask* waiting = queue->line.Find(task);
  if (waiting == nullptr || !waiting->task->Cancelled()) return;
  Drop(*queue, queue->line.Remove(task), refusal::CallerGone());
  TellDepth(*queue);
}

void Dispatcher::RecordLatency(QueueId id, const BatchSize& batch, Nanos duration, Nanos now) {
  if (Queue* queue = Find(id)) queue->latency.Record(batch, duration, now);
}

Dispatcher::Work Dispatcher::Next(Nanos now) {
  Work work;
  for (auto& [id, queue] : queues_) TakeExpired(queue, now);

  absl::InlinedVector<Queue*, 8> with_work;
  absl::InlinedVector<Ready, 8> ready;
  while (free_threads_ > 0) {
    with_work.clear();
    ready.clear();
    work.wake_at = kNever;
    for (auto& [id, queue] : queues_) {
      if (queue.running == queue.options.instances) continue;
      ClearHead(queue, now);
      if (!queue.line.empty()) with_work.push_back(&queue);
    }
    for (Queue* queue : with_work) {
      const auto answer = Ask(*queue, free_threads_, with_work.size() > 1, now);
      if (const auto* one = std::get_if<Ready>(&answer)) {
        ready.push_back(*one);
      } else {
        work.wake_at = std::min(work.wake_at, std::get<BatchPolicy::WaitUntil>(answer).when);
      }
    }
    if (ready.empty()) break;
    if (ready.size() > 1) ShareThreads(absl::MakeSpan(ready), now);
    const Turn turn = NextTurn(ready, now);
    if (turn.ready->threads > free_threads_) break;  // kept for it
    if (std::optional<Start> start = StartBatch(turn, now)) {
      work.starts.push_back(*std::move(start));
    }
  }

  if (free_threads_ == 0) work.wake_at = kNever;  // Done comes first
  for (const auto& [id, queue] : queues_) {
    work.wake_at = std::min(work.wake_at, queue.line.NextExpiry());
  }
  work.drops = std::exchange(drops_, {});
  work.yields = std::exchange(yields_, {});
  return work;
}

void Dispatcher::Done(QueueId id, int instance, RunOutcome outcome, Nanos duration, Nanos now) {
  Queue& queue = *Find(id);
  std::optional<Run>& slot = queue.instances[instance];
  FOVEA_CHECK(slot.has_value());
  const Run run = *std::exchange(slot, std::nullopt);
  --queue.running;
  if (run.idle_only) {
    idle_work_.reset();
  } else {
    queue.running_images -= run.batch.images;
    queue.concurrency.OnBatchDone(now);
    queue.busy_threads.Add(run.batch.threads, duration, now);
  }
  free_threads_ += run.batch.threads;
  if (outcome == RunOutcome::kWhole) queue.latency.Record(run.batch, duration, now);
  if (run.charged.has_value()) {
    fair_share_.Charge(id, duration * run.batch.threads - *run.charged);
  }
  if (queue.options.observer != nullptr) {
    queue.options.observer->OnBatchDone(run.batch.images, duration);
    const Nanos forecast =
        queue.latency.Of(run.batch.shape_key, run.batch.threads).Typical(run.batch.images);
    if (outcome == RunOutcome::kStopped && forecast > duration && !run.idle_only) {
      queue.options.observer->OnWorkSaved((forecast - duration) * run.batch.threads);
    }
  }
}

Nanos Dispatcher::LeastRunTime(QueueId id, const BatchSize& batch, Nanos now) const {
  const LatencyModels::Shape& latency = Get(id).latency.Of(batch.shape_key);
  return latency.Trusted(now) ? latency.Fast(batch.images) : 0;
}

void Dispatcher::Drain(QueueId id) {
  Queue& queue = *Find(id);
  if (queue.state == QueueState::kAccepting) queue.MoveTo(QueueState::kDraining);
  if (idle_work_ && idle_work_->queue == id) YieldIdleWork();
}

void Dispatcher::Stop(QueueId id) {
  Queue& queue = *Find(id);
  Drain(id);
  if (queue.state == QueueState::kDraining) queue.MoveTo(QueueState::kStopped);
  while (!queue.line.empty())
    Drop(queue, queue.line.Remove(queue.line.front().id), refusal::Draining());
  queue.reserved.Clear();
  if (idle_work_ && idle_work_->queue == id && idle_work_->running == nullptr) idle_work_.reset();
  TellDepth(queue);
}

Nanos Dispatcher::Queue::OrderOf(const TaskOutline& outline, Nanos now) const {
  return outline.deadline == kNever ? now + options.default_deadline_us * kMicrosecond
                                    : outline.deadline;
}

int Dispatcher::Queue::ExpectedImages(uint64_t shape_key) const {
  return std::max(line.ImagesOf(shape_key), concurrency.images() - running_images);
}

bool Dispatcher::Queue::FillsBatches(int images) const {
  const AllowedThreads allowed = allowed_threads();
  return images >= allowed.MaxImages(allowed.fewest()) * options.instances ||
         options.max_queue_delay_us > 0 || !options.preferred_batch_sizes.empty();
}

Dispatcher::Queue::FullBatch Dispatcher::Queue::LatestFullBatch(uint64_t shape_key) const {
  const LatencyModels::Shape& shape = latency.Of(shape_key);
  const int latest = shape.latest_threads() > 0 ? shape.latest_threads() : allowed_threads().most();
  return {.images = allowed_threads().MaxImages(latest),
          .threads = latest,
          .latency = shape.On(latest)};
}

Dispatcher::Queue* Dispatcher::Find(QueueId id) {
  auto found = queues_.find(id);
  return found == queues_.end() ? nullptr : &found->second;
}

const Dispatcher::Queue& Dispatcher::Get(QueueId id) const {
  auto found = queues_.find(id);
  FOVEA_CHECK(found != queues_.end());
  return found->second;
}

void Dispatcher::Drop(Queue& queue, std::unique_ptr<Task> task, absl::Status why) {
  const bool idle_only = task->idle_only() != nullptr;
  if (idle_only) idle_work_.reset();  // there is one
  if (queue.options.observer != nullptr && !idle_only) {
    const Rejection counted = refusal::CountedAs(why);
    queue.options.observer->OnDropped(task->priority(), counted);
    const Queue::FullBatch full = queue.LatestFullBatch(task->shape_key());
    const Nanos share = full.run_time() * full.threads * task->images() / full.images;
    const bool unwanted = counted == Rejection::kCancelled || counted == Rejection::kDeadline;
    if (unwanted && share > 0) queue.options.observer->OnWorkSaved(share);
  }
  drops_.push_back({queue.id, std::move(task), std::move(why)});
}

void Dispatcher::TakeExpired(Queue& queue, Nanos now) {
  if (queue.line.NextExpiry() > now) return;
  const int delayed =
      queue.line.TakeExpired(now, [&](std::unique_ptr<Task> task, TaskQueue::Expiry expiry) {
        Drop(queue, std::move(task),
             expiry == TaskQueue::Expiry::kDeadline ? refusal::Expired() : refusal::TimedOut());
      });
  if (delayed > 0 && queue.options.observer != nullptr) queue.options.observer->OnDelayed(delayed);
  TellDepth(queue);
}

absl::Status Dispatcher::Refusal(const WaitingTask& task, Nanos least, Nanos now) {
  if (task.task->Cancelled()) return refusal::CallerGone();
  if (task.deadline != kNever && task.deadline - now < least) return refusal::Unreachable();
  return absl::OkStatus();
}

void Dispatcher::ClearHead(Queue& queue, Nanos now) {
  bool cleared = false;
  while (!queue.line.empty()) {
    const WaitingTask& first = queue.line.front();
    const LatencyModels::Shape& latency = queue.latency.Of(first.shape_key);
    const Nanos least = latency.Trusted(now) ? latency.Fast(first.images) : 0;
    absl::Status refusal = Refusal(first, least, now);
    if (refusal.ok()) break;
    Drop(queue, queue.line.Remove(first.id), std::move(refusal));
    cleared = true;
  }
  if (cleared) TellDepth(queue);
}

std::variant<Dispatcher::Ready, BatchPolicy::WaitUntil> Dispatcher::Ask(Queue& queue,
                                                                        int free_threads,
                                                                        bool contended,
                                                                        Nanos now) const {
  const WaitingTask& first = queue.line.front();
  const LatencyModels::Shape& curves = queue.latency.Of(first.shape_key);
  const BatchPlan plan = PlanBatch(
      queue.allowed_threads(),
      {.images = queue.ExpectedImages(first.shape_key),
       .first_images = first.images,
       .free_threads = free_threads,
       .time_left = first.deadline == kNever ? kNever : first.deadline - now,
       .fill = contended || queue.FillsBatches(queue.line.images() + queue.running_images)},
      curves, now);
  const int side_by_side =
      std::max(plan.threads, std::min(free_threads, queue.allowed_threads().most()));
  const TaskQueue::Forming forming = queue.line.Look(plan.images);
  const LatencyModel& latency = curves.On(plan.threads);
  const BatchPolicy::Decision decision =
      queue.policy.Next({.images = forming.images,
                         .most_images = plan.images,
                         .room = queue.allowed_threads().MaxImages(side_by_side),
                         .longest_wait = now - queue.line.oldest(),
                         .first_images = forming.first_images,
                         .first_deadline = forming.first_deadline,
                         .behind_deadline = forming.behind_deadline,
                         .device_idle = queue.running < queue.options.instances,
                         .draining = queue.state != QueueState::kAccepting,
                         .latency = &latency},
                        now);
  if (const auto* wait = std::get_if<BatchPolicy::WaitUntil>(&decision)) return *wait;
  const auto& close = std::get<BatchPolicy::Close>(decision);
  const Nanos deadline = std::min(forming.first_deadline, forming.behind_deadline);
  return Ready{.queue = &queue,
               .close = close,
               .threads = plan.threads,
               .run_time = latency.Typical(close.images),
               .start_by = deadline == kNever ? kNever : deadline - latency.Slow(close.images)};
}

void Dispatcher::ShareThreads(absl::Span<Ready> ready, Nanos now) const {
  const int part = std::max(1, free_threads_ / static_cast<int>(ready.size()));
  for (Ready& one : ready) {
    // With fewer threads it may have time to wait for batch peers: not while others have none.
    const auto answer = Ask(*one.queue, part, /*contended=*/true, now);
    if (const auto* with_less = std::get_if<Ready>(&answer)) one = *with_less;
  }
}

std::optional<Dispatcher::Start> Dispatcher::StartBatch(const Turn& turn, Nanos now) {
  Queue& queue = *turn.ready->queue;
  const BatchPolicy::Close& close = turn.ready->close;
  std::vector<std::unique_ptr<Task>> refused;
  std::vector<absl::Status> why;
  const int threads = turn.ready->threads;
  TaskQueue::Taken taken = queue.line.Take(
      close.images,
      [&](const WaitingTask& task) {
        const LatencyModel& latency = queue.latency.Of(task.shape_key, threads);
        const Nanos least = latency.Trusted(now) ? latency.Fast(task.images) : 0;
        absl::Status refusal = Refusal(task, least, now);
        if (refusal.ok()) return true;
        why.push_back(std::move(refusal));
        return false;
      },
      &refused);
  for (size_t i = 0; i < refused.size(); ++i) Drop(queue, std::move(refused[i]), std::move(why[i]));
  FOVEA_CHECK(taken.images <= queue.allowed_threads().MaxImages(threads));
  if (taken.tasks.empty()) {
    TellDepth(queue);
    return std::nullopt;
  }

  // The first that is idle: see Batch::instance.
  const auto idle = std::find(queue.instances.begin(), queue.instances.end(), std::nullopt);
  FOVEA_CHECK(idle != queue.instances.end());
  const BatchSize size{.images = taken.images, .shape_key = taken.shape_key, .threads = threads};
  *idle = Run{.batch = size, .started_at = now};
  if (const CancellationPtr yields = taken.tasks.front()->idle_only(); yields != nullptr) {
    idle_work_->running = yields;
    (*idle)->idle_only = true;
  }
  if (turn.charged && !(*idle)->idle_only) {
    // With what it will probably take, or a model with several instances would take several turns
    // before its first was accounted for. Done corrects it.
    (*idle)->charged = queue.latency.Of(taken.shape_key, threads).Typical(taken.images) * threads;
    fair_share_.Charge(queue.id, *(*idle)->charged);
  }
  ++queue.running;
  // Who comes while it runs is alone: it makes way.
  if (!(*idle)->idle_only) queue.running_images += taken.images;
  free_threads_ -= threads;

  auto batch = std::make_unique<Batch>();
  batch->tasks = std::move(taken.tasks);
  batch->images = taken.images;
  batch->shape_key = taken.shape_key;
  batch->threads = threads;
  batch->why = close.why;
  batch->instance = static_cast<int>(idle - queue.instances.begin());
  batch->closed_at = now;
  batch->MoveTo(BatchState::kClosed);
  if (queue.options.observer != nullptr) queue.options.observer->OnBatchClosed(*batch);
  TellDepth(queue);
  return Start{queue.id, std::move(batch)};
}

void Dispatcher::TellDepth(const Queue& queue) const {
  if (queue.options.observer == nullptr) return;
  queue.options.observer->OnQueueDepth(queue.line.size(), queue.reserved.size());
  if (queue.priorities() == 1) return;
  for (int priority = 0; priority < queue.priorities(); ++priority) {
    queue.options.observer->OnPriorityDepth(priority, queue.places(priority));
  }
}

}  // namespace fovea
