#include "server/api/control_threads.h"

#include <utility>

namespace fovea {

ControlThreads::ControlThreads(int threads, size_t max_waiting) : max_waiting_(max_waiting) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  } catch (...) {
    Join();
    throw;
  }
}

ControlThreads::~ControlThreads() { Join(); }

void ControlThreads::Join() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

bool ControlThreads::Run(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (waiting_.size() >= max_waiting_) return false;
    waiting_.push_back(std::move(task));
  }
  changed_.NotifyOne();
  return true;
}

void ControlThreads::Work() {
  for (;;) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
      if (waiting_.empty()) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    task();
  }
}

}  // namespace fovea
