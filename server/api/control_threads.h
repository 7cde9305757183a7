// Threads for calls that take long, so that the transports' own stay free for those that do not.
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "server/core/mutex.h"

namespace fovea {

// Thread-safe. Runs tasks in their order, several at a time.
class ControlThreads {
 public:
  // Throws std::system_error where the system has no thread left.
  ControlThreads(int threads, size_t max_waiting);
  // Waits for the tasks under way; runs the waiting ones too.
  ~ControlThreads();

  // False, and the task is dropped, where `max_waiting` tasks wait already.
  bool Run(std::function<void()> task);

 private:
  void Work();
  void Join();

  const size_t max_waiting_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace fovea
