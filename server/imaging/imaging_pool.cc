#include "server/imaging/imaging_pool.h"

#include <pthread.h>
#include <sys/resource.h>

#include <system_error>

#include "server/core/check.h"
#include "server/core/limits.h"
#include "server/core/log.h"
#include "server/imaging/decode.h"

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
                                                                 const Clock& clock) {
  const bool valid = options.threads >= 1 && options.threads <= limits::kMaxImagingThreads &&
                     options.max_queued >= 1 && options.memory_bytes >= 1 &&
                     options.niceness >= 0 && options.niceness <= 19;
  if (!valid)
    return InvalidArgument("imaging.bad_options", "an option of the imaging pool is out of range");
  WarmUpDecoders();
  std::unique_ptr<ImagingPool> pool(new ImagingPool(options, clock));
  FOVEA_RETURN_IF_ERROR(pool->Start());
  return pool;
}

ImagingPool::ImagingPool(const ImagingPoolOptions& options, const Clock& clock)
    : options_(options), clock_(clock), budget_(options.memory_bytes) {}

absl::Status ImagingPool::Start() {
  try {
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    return Internal("imaging.no_thread", "a thread for decoding images could not be started");
  }
  return absl::OkStatus();
}

ImagingPool::~ImagingPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  work_or_stop_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status ImagingPool::Submit(ImagingTask&& task) {
  {
    MutexLock lock(mutex_);
    FOVEA_CHECK(!stopping_);
    if (queue_.size() >= static_cast<size_t>(options_.max_queued)) {
      return Unavailable("image.queue_full", "too many images wait to be decoded");
    }
    queue_.push_back(std::move(task));
  }
  work_or_stop_.NotifyOne();
  return absl::OkStatus();
}

int ImagingPool::queued() const {
  MutexLock lock(mutex_);
  return static_cast<int>(queue_.size());
}

absl::Status ImagingPool::Turn(const ImagingTask& task) const {
  if (task.cancellation != nullptr && task.cancellation->Cancelled()) {
    return Cancelled("queue.cancelled", "the request was cancelled while it waited");
  }
  if (task.deadline != kNever && clock_.Now() >= task.deadline) {
    return DeadlineExceeded("queue.expired",
                            "the deadline passed before the image could be decoded");
  }
  return absl::OkStatus();
}

void ImagingPool::Work() {
  pthread_setname_np(pthread_self(), "imaging");
  LowerPriority(options_.niceness);
  for (;;) {
    ImagingTask task;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) work_or_stop_.Wait(mutex_);
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task.run(Turn(task));
  }
}

}  // namespace fovea
