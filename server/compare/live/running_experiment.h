// One experiment, from when its arms are there until it is forgotten: where requests go, what has
// been seen, and when it ends.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/compare/live/arm_tests.h"
#include "server/compare/live/experiment_observer.h"
#include "server/compare/live/shadow_budget.h"
#include "server/compare/live/traffic_split.h"
#include "server/core/clock.h"
#include "server/core/live_experiment.h"
#include "server/core/model_catalog.h"
#include "server/core/mutex.h"

namespace fovea {

// Where an arm's model is: in the catalog, under this name.
struct ArmModel {
  std::string name;  // the arm's, as ArmName gives it
  std::string model_name;
  std::string model_version;         // empty: the latest
  std::string weights_of_attention;  // as ArmReport's
  std::shared_ptr<const ModelView> view;
  std::shared_ptr<const void> lease;  // as long as it is held it is served; null: it is anyway
  // The model in the catalog whose weights a leased one has; empty where there is no lease.
  Variant source;
  std::shared_ptr<const ModelView> source_view;
};

// Thread-safe. What it is given outlives it.
class RunningExperiment {
 public:
  struct Environment {
    const ModelCatalog& catalog;
    Clock& clock;
    int device_threads = 1;
    Provenance measured;
  };
  // `arms`: a model for each of the plan's arms, all of one kind. The plan has been checked.
  RunningExperiment(ExperimentPlan plan, std::vector<ArmModel> arms, const Environment& environment,
                    const ExperimentObserverFactory& observe);

  const ExperimentPlan& plan() const { return plan_; }
  const std::string& arm_name(size_t arm) const { return names_[arm]; }
  bool running() const { return running_; }
  Nanos ended_at() const;  // kNever: it runs
  LiveExperiment Report() const;

  struct Choice {
    size_t arm = 0;
    std::shared_ptr<const ServingModel> model;
  };
  // Where a request with `key` goes; without one (empty) each request goes by itself. None: the
  // experiment has ended, also just now, because the arm's model is gone; the model itself has the
  // request then.
  std::optional<Choice> Choose(std::string_view key);

  // A caller of the arm has been answered, `latency` after the request's arrival. `allowed`: the
  // time that the caller gave it, kNever: any. A deadline that passes counts only where the caller
  // gave at least kFairTimes the baseline's mean latency: it says nothing of the arm where the
  // baseline might have missed it, too.
  void OnAnswered(size_t arm, absl::StatusCode code, Nanos latency, Nanos allowed);

  // The arm that gets a copy of the next request of the baseline's; none: no arm does.
  std::optional<size_t> NextCopy();
  bool AllowsCopy();  // whether its share of the device is not used up
  void OnSkipped(size_t arm);
  // A copy has taken so much of one thread's time, whatever became of it.
  void OnSpent(Nanos thread_time);
  // How the arm's next copy is run.
  std::vector<ArmTests::CopyRun> CopyRuns(size_t arm) const;
  void OnCopy(size_t arm, const ArmTests::Copy& copy);
  // The arm's model, for a copy; ends the experiment where the model is gone. Null: the experiment
  // has ended.
  std::shared_ptr<const ServingModel> Model(size_t arm);

  // Nothing where it has ended already.
  void End(ExperimentState why, std::string reason);
  // Ends it where its time is over, or a model of it is gone.
  void Check();
  // It has ended, and is counted no more from here on.
  void Forget();
  // Takes what holds the models of an experiment that has ended. Destroying it unloads them, which
  // may take time.
  std::vector<std::shared_ptr<const void>> TakeLeases();

 private:
  struct Arm {
    ArmModel model;
    uint64_t requests = 0, failures = 0, copies = 0, skipped = 0;
    double latency_sum_ms = 0;
    uint64_t latencies = 0;  // that are in the sum
  };

  // Whether the arm's model is still what it was, or may be taken for that, now that it was loaded
  // anew: not while an arm serves the weights of the load before. FAILED_PRECONDITION;
  // CheckSameKind's errors.
  absl::Status CheckView(size_t arm, const std::shared_ptr<const ModelView>& view)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a deadline after `allowed` that passes counts: where `allowed` is at least kFairTimes
  // the baseline's mean latency so far. False before the baseline has answered, except for kNever.
  bool IsFair(Nanos allowed) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the model whose weights a leased arm has is still the one in the catalog.
  absl::Status CheckSource(size_t arm) ABSL_LOCKS_EXCLUDED(mutex_);
  void Count(size_t arm, ArmOutcome outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellTests(size_t arm) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLocked(ExperimentState why, std::string reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Once, without the mutex: where a log goes may hang.
  void LogEnd() ABSL_LOCKS_EXCLUDED(mutex_);
  ArmTests& tests(size_t arm) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return tests_[arm - 1]; }

  const ExperimentPlan plan_;
  const Environment environment_;
  const std::vector<std::string> names_;  // of the arms
  const TrafficSplit split_;
  const Nanos started_;
  std::vector<size_t> shadows_;  // numbers of arms
  std::atomic<uint64_t> draw_;
  std::atomic<bool> running_ = true;

  mutable Mutex mutex_;
  ExperimentState state_ ABSL_GUARDED_BY(mutex_) = ExperimentState::kRunning;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
  bool logged_ ABSL_GUARDED_BY(mutex_) = false;  // its end
  Nanos ended_ ABSL_GUARDED_BY(mutex_) = kNever;
  std::vector<Arm> arms_ ABSL_GUARDED_BY(mutex_);
  std::vector<ArmTests> tests_ ABSL_GUARDED_BY(mutex_);  // one for each arm but the baseline
  ShadowBudget budget_ ABSL_GUARDED_BY(mutex_);
  size_t next_shadow_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<ExperimentObserver> observer_ ABSL_GUARDED_BY(mutex_);  // null: forgotten
};

}  // namespace fovea
