// Experiments that are not to be measured beside each other, one after the other on a thread of
// their own: comparisons and sweeps share a line, explanations and served variants have theirs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "server/core/cancellation.h"
#include "server/core/memory_budget.h"
#include "server/core/mutex.h"

namespace fovea {

struct ExperimentLineOptions {
  std::string name;        // for reasons: "explain" gives explain.busy, explain.cancelled
  std::string what;        // in words, several: "explanations"
  size_t max_waiting = 1;  // for the one that runs; what they hold, they hold meanwhile
  // Bounds the memory of waiting requests in all lines that share it; null: unbounded. Outlives the
  // line.
  MemoryBudget* waiting_memory = nullptr;
};

// Thread-safe.
class ExperimentLine {
 public:
  struct Experiment {
    CancellationPtr cancellation;
    int64_t bytes = 0;  // held by its request while it waits
    // Called in Add where others are before it, and must not call the line; may be null.
    std::function<void()> wait;
    std::function<absl::Status()> run;      // on the line's thread; ends early when cancelled
    std::function<void(absl::Status)> end;  // once and last, whether it was run or not
  };

  // UNAVAILABLE server.no_thread.
  static absl::StatusOr<std::unique_ptr<ExperimentLine>> Create(ExperimentLineOptions options);
  ~ExperimentLine();

  // Returns at once. `end` is told what `run` returned; CANCELLED where it was cancelled before
  // that, on the thread that cancels; UNAVAILABLE NAME.busy where too many wait or hold too much,
  // server.draining where the line stops, the last two here. Sets the cancellation's callback,
  // which `run` may replace.
  void Add(Experiment experiment);

  // One that has a result: `done` is called as `end` above.
  template <typename Result>
  void AddFor(CancellationPtr cancellation, int64_t bytes, std::function<void()> wait,
              std::function<absl::StatusOr<Result>()> run,
              std::function<void(absl::StatusOr<Result>)> done) {
    const auto result = std::make_shared<Result>();
    Add({.cancellation = std::move(cancellation),
         .bytes = bytes,
         .wait = std::move(wait),
         .run = [result, run = std::move(run)]() -> absl::Status {
           FOVEA_ASSIGN_OR_RETURN(*result, run());
           return absl::OkStatus();
         },
         .end =
             [result, done = std::move(done)](absl::Status status) {
               status.ok() ? done(std::move(*result)) : done(std::move(status));
             }});
  }

  // Cancels the experiment that runs, and refuses those that wait or come. Waits for nothing. Later
  // calls do nothing.
  void Close();
  // The same, and waits for the one that runs.
  void Stop();

 private:
  explicit ExperimentLine(ExperimentLineOptions options)
      : options_(std::move(options)), state_(std::make_shared<State>(options_.name)) {}
  void Work();

  // Shared with the callbacks of those who wait: one may be under way when the line is gone.
  struct State {
    explicit State(std::string of) : name(std::move(of)) {}
    absl::Status Cancelled() const;
    // Takes one out that waits, and ends it; nothing where it no longer does.
    void EndCancelled(uint64_t number);

    const std::string name;
    Mutex mutex;
    CondVar changed;
    uint64_t next ABSL_GUARDED_BY(mutex) = 0;
    struct Waiting {
      Experiment experiment;
      std::optional<MemoryBudget::Hold> memory;  // none where it does not wait for another
    };
    std::map<uint64_t, Waiting> waiting ABSL_GUARDED_BY(mutex);  // in the order they came
    CancellationPtr running ABSL_GUARDED_BY(mutex);              // null: none runs
    bool stopping ABSL_GUARDED_BY(mutex) = false;
  };

  const ExperimentLineOptions options_;
  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace fovea
