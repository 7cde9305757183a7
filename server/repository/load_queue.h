// Runs the repository's jobs on a few threads, never two of one model at a time.
#pragma once

#include <functional>
#include <list>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/core/mutex.h"

namespace fovea {

// Thread-safe.
class LoadQueue {
 public:
  // `stopping`: the queue was stopped before the job's turn came; it should only tell its caller.
  using Job = std::function<void(bool stopping)>;

  explicit LoadQueue(int threads);
  ~LoadQueue();  // Close and Join
  LoadQueue(const LoadQueue&) = delete;
  LoadQueue& operator=(const LoadQueue&) = delete;

  // Every job is called exactly once; those of one model in the order they were added in. After
  // Stop: at once, here.
  void Add(std::string model, Job job);

  // Runs `job` on this thread, once no other job of the model is running. False, without having run
  // it, where the queue was closed before that.
  bool RunHere(const std::string& model, const std::function<void()>& job);

  // Calls the waiting jobs with `stopping`, and begins no more. Does not wait for those that run.
  void Close();
  // Waits for them: as long as their disk takes. Close was called.
  void Join();

 private:
  struct Entry {
    std::string model;
    Job job;
  };

  void Work();
  // Takes the first job whose model is free.
  bool TakeNext(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::list<Entry> waiting_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> busy_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace fovea
