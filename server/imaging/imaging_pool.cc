#include "server/imaging/imaging_pool.h"

#include <pthread.h>
#include <sys/resource.h>

#include <utility>

#include "base/check.h"
#include "base/limits.h"
#include "server/core/log.h"
#include "server/core/start_threads.h"
#include "server/imaging/decode.h"
#include "server/scheduler/refusal.h"

namespace fovea {
namespace {

// On Linux nice values belong to threads, and 0 names the calling one.
void LowerPriority(int niceness) {
  const int now = getpriority(PRIO_PROCESS, 0);
  if (setpriority(PRIO_PROCESS, 0, now + niceness) != 0) {
    Log(LogLevel::kWarning, "imaging: the threads' priority could not be lowered");
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImagingPool>> ImagingPool::Create(const ImagingPoolOptions& options,
                                                                 Clock& clock) {
  const bool valid = options.threads >= 1 && options.threads <= limits::kMaxImagingThreads &&
                     options.max_queued >= 1 && options.memory_bytes >= 1 &&
                     options.niceness >= 0 && options.niceness <= 19;
  if (!valid)
    return InvalidArgument("imaging.bad_options", "an option of the imaging pool is out of range");
  std::unique_ptr<ImagingPool> pool(new ImagingPool(options, clock));
  FOVEA_RETURN_IF_ERROR(pool->Start());
  return pool;
}

ImagingPool::ImagingPool(const ImagingPoolOptions& options, Clock& clock)
    : options_(options),
      clock_(clock),
      budget_(options.memory_bytes, clock),
      schedule_(options.threads) {}

absl::Status ImagingPool::Start() {
  return StartThreads([this] {
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
  });
}

ImagingPool::~ImagingPool() { Stop(); }

void ImagingPool::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  work_or_stop_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

std::unique_ptr<ImagingLine> ImagingPool::AddLine(std::function<void(Nanos)> on_saved) {
  MutexLock lock(mutex_);
  const ImagingLineId id = schedule_.AddLine();
  if (on_saved) on_saved_.emplace(id, std::move(on_saved));
  return std::unique_ptr<ImagingLine>(new ImagingLine(*this, id));
}

int ImagingPool::queued() const {
  MutexLock lock(mutex_);
  return schedule_.waiting();
}

absl::Status ImagingPool::Turn(ImagingTaskId id, const ImagingTask& task, Nanos now) const {
  if (task.cancellation != nullptr && task.cancellation->Cancelled()) return refusal::CallerGone();
  if (task.deadline != kNever && now >= task.deadline) return refusal::Expired();
  if (schedule_.Hopeless(id, now)) return refusal::Unreachable();
  return absl::OkStatus();
}

void ImagingPool::Work() {
  pthread_setname_np(pthread_self(), "imaging");
  LowerPriority(options_.niceness);
  for (;;) {
    ImagingTask task;
    ImagingTaskId id;
    absl::Status turn;
    Nanos start, saved = 0;
    std::function<void(Nanos)> on_saved;
    {
      MutexLock lock(mutex_);
      while (!schedule_.has_next() && !stopping_) work_or_stop_.Wait(mutex_);
      // What is held back is left to the thread that runs others of its request.
      if (!schedule_.has_next()) return;
      start = clock_.Now();
      id = *schedule_.Next(start);
      task = std::move(tasks_.extract(id).mapped());
      turn = Turn(id, task, start);
      if (!turn.ok()) {
        const auto found = on_saved_.find(schedule_.LineOf(id));
        if (found != on_saved_.end()) on_saved = found->second;
        saved = schedule_.LeastTime(id);
      }
    }
    // First: the request's end may be that of who counts.
    if (on_saved && saved > 0) on_saved(saved);
    const ImagingOutcome outcome = task.run(turn);
    const Nanos end = clock_.Now();
    const Nanos took = end - start;
    MutexLock lock(mutex_);
    // Where it waited for memory, the thread was nobody else's, but images do not take longer.
    schedule_.Done(id, took, outcome.decoded ? std::optional(took - outcome.waited) : std::nullopt,
                   end);
  }
}

ImagingLine::~ImagingLine() {
  MutexLock lock(pool_.mutex_);
  pool_.schedule_.RemoveLine(id_);
  pool_.on_saved_.erase(id_);
}

absl::Status ImagingLine::Submit(std::span<ImagingTask> tasks) {
  // Once the tasks are the pool's, their end may be the end of this line.
  ImagingPool& pool = pool_;
  {
    MutexLock lock(pool.mutex_);
    FOVEA_CHECK(!pool.stopping_);
    const int most = pool.options_.max_queued;
    if (pool.schedule_.waiting() >= most &&
        pool.schedule_.waiting(id_) >= most / pool.schedule_.lines_in_use(id_)) {
      return Unavailable("image.queue_full", "too many images wait to be decoded");
    }
    for (ImagingTask& task : tasks) {
      const ImagingTaskId id = pool.schedule_.Add(id_, task.outline);
      pool.tasks_.emplace(id, std::move(task));
    }
  }
  if (tasks.size() == 1) {
    pool.work_or_stop_.NotifyOne();
  } else {
    pool.work_or_stop_.NotifyAll();
  }
  return absl::OkStatus();
}

void ImagingLine::SubmitLast(ImagingTask task) {
  ImagingPool& pool = pool_;
  {
    MutexLock lock(pool.mutex_);
    if (!pool.stopping_) {
      const ImagingTaskId id = pool.schedule_.Add(id_, task.outline);
      pool.tasks_.emplace(id, std::move(task));
      pool.work_or_stop_.NotifyOne();
      return;
    }
  }
  task.run(absl::OkStatus());
}

Nanos ImagingLine::Forecast(int priority, Nanos order, std::span<const ImagingWork> images) const {
  MutexLock lock(pool_.mutex_);
  return pool_.schedule_.Forecast(id_, priority, order, images, pool_.clock_.Now());
}

}  // namespace fovea
