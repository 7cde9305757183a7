// Runs live comparisons: starts them, sends requests to their arms, copies requests to shadows, and
// keeps what they have found.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/compare/experiment_line.h"
#include "server/compare/live/experiment_observer.h"
#include "server/compare/live/running_experiment.h"
#include "server/compare/live/shadow_copies.h"
#include "server/core/clock.h"
#include "server/core/live_experiment.h"
#include "server/core/model_catalog.h"
#include "server/core/mutex.h"

namespace fovea {

// A variant that is served under a name of its own for as long as `lease` lives.
struct LeasedModel {
  std::string model_name;
  std::string model_version;
  std::string weights_of_attention;  // empty: the model's own
  std::shared_ptr<const void> lease;
};
// Has a variant served that has another attention than its model. Blocks the calling thread while
// the variant loads; setting the cancellation ends that.
using LeaseVariant =
    std::function<absl::StatusOr<LeasedModel>(const Variant& variant, CancellationPtr)>;

struct TrafficExperimentsOptions {
  int device_threads = 1;
  std::function<bool(Nanos until)> await_idle;  // as ShadowCopies::Options'
  std::function<Provenance()> provenance;       // of one that begins; may be null
  size_t max_running = limits::kMaxLiveExperiments;
  size_t max_ended =
      limits::kMaxEndedLiveExperiments;  // that are kept; then the oldest is forgotten
  size_t max_waiting = limits::kMaxWaitingLiveExperiments;  // starts, for the one that loads
};

// Thread-safe. All that it is given outlives it.
class TrafficExperiments final : public LiveExperiments {
 public:
  // UNAVAILABLE server.no_thread. `catalog` also finds what `lease` has served.
  static absl::StatusOr<std::unique_ptr<TrafficExperiments>> Create(
      const TrafficExperimentsOptions& options, const ModelCatalog& catalog, LeaseVariant lease,
      Clock& clock, ExperimentObserverFactory observe);
  // Ends those that run, and lets their models go. Requests that are just being answered may
  // outlive it, and hear nothing of that.
  ~TrafficExperiments() override;

  // No more starts, and the one that loads is given up. Waits for nothing.
  void CancelLoads() { line_->Close(); }
  // The server drains: no more starts and no more copies, and those under way are given up.
  // Requests still go where they went. Later calls do nothing.
  void Stop();

  void Start(ExperimentPlan plan, CancellationPtr cancellation, Done done) override;
  absl::StatusOr<LiveExperiment> Get(std::string_view name) const override;
  std::vector<LiveExperiment> List() const override;
  absl::StatusOr<LiveExperiment> Stop(std::string_view name) override;
  absl::Status Delete(std::string_view name) override;
  std::unique_ptr<RoutedRequest> Route(std::string_view model, std::string_view key) override;

 private:
  using ExperimentPtr = std::shared_ptr<RunningExperiment>;

  TrafficExperiments(const TrafficExperimentsOptions& options, const ModelCatalog& catalog,
                     LeaseVariant lease, Clock& clock, ExperimentObserverFactory observe)
      : options_(options),
        catalog_(catalog),
        lease_(std::move(lease)),
        clock_(clock),
        observe_(std::move(observe)) {}

  // Takes the plan's name and its model's traffic until Publish, or Abandon.
  absl::Status Claim(const ExperimentPlan& plan);
  void Abandon(const ExperimentPlan& plan);
  absl::StatusOr<ExperimentPtr> Load(const ExperimentPlan& plan, CancellationPtr cancellation);
  absl::StatusOr<ArmModel> LoadArm(const Variant& variant, CancellationPtr cancellation);
  void Publish(ExperimentPtr experiment);
  absl::StatusOr<ExperimentPtr> Find(std::string_view name) const;
  // Takes the oldest of those that have ended where they are too many; the caller destroys them.
  std::vector<ExperimentPtr> TakeOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a change of what has traffic.
  void CountRunning() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    running_ = static_cast<int>(by_model_.size());
  }
  // Looks at every experiment. Releases what those that have ended hold, and forgets the oldest of
  // these where they are too many.
  void Tick();

  const TrafficExperimentsOptions options_;
  const ModelCatalog& catalog_;
  const LeaseVariant lease_;
  Clock& clock_;
  const ExperimentObserverFactory observe_;

  std::atomic<int> running_ = 0;  // at least so many have traffic: a request looks no further at 0
  mutable Mutex mutex_;
  // The names of those that load, and the models whose traffic they will have.
  std::set<std::string, std::less<>> starting_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string, std::less<>> claimed_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, ExperimentPtr, std::less<>> experiments_ ABSL_GUARDED_BY(mutex_);
  // By the model whose traffic they have; some may just have ended.
  std::map<std::string, ExperimentPtr, std::less<>> by_model_ ABSL_GUARDED_BY(mutex_);

  // Last: their threads use the others.
  std::shared_ptr<ShadowCopies> copies_;
  std::unique_ptr<ExperimentLine> line_;
};

}  // namespace fovea
