// Runs the repository's jobs on a few threads, never two of one model at a time.
#pragma once

#include <functional>
#include <list>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/core/mutex.h"

namespace fovea {

// Thread-safe.
class LoadQueue {
 public:
  // `turn`: OK, or why the job's turn will not come; it should only tell its caller then.
  using Job = std::function<void(const absl::Status& turn)>;

  // Throws std::system_error where the system has no thread left.
  explicit LoadQueue(int threads);
  ~LoadQueue();  // Close and Join
  LoadQueue(const LoadQueue&) = delete;
  LoadQueue& operator=(const LoadQueue&) = delete;

  // Every job is called exactly once; those of one model in the order they were added in. After
  // Close: at once, here.
  void Add(std::string model, Job job);

  // Calls the model's waiting jobs with `instead`, an error, and runs `job` on this thread once
  // none of the model is running: what was added before is not done after it. False, without having
  // run it, where the queue was closed before that. Throws what `job` does.
  bool RunHere(const std::string& model, const absl::Status& instead,
               const std::function<void()>& job);

  // The most jobs that were waiting or running at once since none was.
  int together() const;

  // Calls the waiting jobs with ServerStopping, and begins no more. Does not wait for those that
  // run.
  void Close();
  // Waits for them: as long as their disk takes. Close was called.
  void Join();

 private:
  struct Entry {
    std::string model;
    Job job;
  };

  void Work();
  // The waiting jobs of `model`.
  std::list<Entry> TakeAll(const std::string& model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The model's next job may run.
  void Free(const std::string& model);
  // Takes the first job whose model is free.
  bool TakeNext(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  int together_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Entry> waiting_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> busy_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace fovea
