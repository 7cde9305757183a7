// Experiments that are not to be measured beside each other, one after the other on a thread of
// their own: comparisons and sweeps share a line, explanations and served variants have theirs.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/cancellation.h"
#include "server/core/mutex.h"

namespace fovea {

struct ExperimentLineOptions {
  std::string name;        // for reasons: "explain" gives explain.busy, explain.cancelled
  std::string what;        // in words, several: "explanations"
  size_t max_waiting = 1;  // for the one that runs; what they hold, they hold meanwhile
};

// Thread-safe.
class ExperimentLine {
 public:
  struct Experiment {
    CancellationPtr cancellation;
    std::function<void()> wait;             // told in Add where others are before it; may be null
    std::function<absl::Status()> run;      // on the line's thread; ends early when cancelled
    std::function<void(absl::Status)> end;  // once and last, whether it was run or not
  };

  // UNAVAILABLE server.no_thread.
  static absl::StatusOr<std::unique_ptr<ExperimentLine>> Create(ExperimentLineOptions options);
  ~ExperimentLine();

  // Returns at once. `end` is told what `run` returned; CANCELLED where it was cancelled before
  // that; UNAVAILABLE NAME.busy where too many wait, server.draining where the line stops. The last
  // two, and those who were cancelled while they waited, are told here.
  void Add(Experiment experiment);

  // Cancels the experiment that runs, and refuses those that wait or come. Waits for nothing. Later
  // calls do nothing.
  void Close();
  // The same, and waits for the one that runs.
  void Stop();

 private:
  explicit ExperimentLine(ExperimentLineOptions options) : options_(std::move(options)) {}
  void Work();
  absl::Status Cancelled() const;
  // Takes those out of the line who have been cancelled.
  std::vector<Experiment> TakeCancelled() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ExperimentLineOptions options_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Experiment> waiting_ ABSL_GUARDED_BY(mutex_);
  CancellationPtr running_ ABSL_GUARDED_BY(mutex_);  // null: none runs
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace fovea
