#include "server/lifecycle/experiments.h"

#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "server/compare/measure/provenance.h"
#include "server/lifecycle/observers.h"
#include "server/observe/experiment_meter.h"

namespace fovea {
namespace {

// Arms of live comparisons that have another attention than their model.
LeaseVariant LeaseFrom(VariantCatalog& variants) {
  return [&variants](const Variant& variant,
                     CancellationPtr cancellation) -> absl::StatusOr<LeasedModel> {
    FOVEA_ASSIGN_OR_RETURN(std::shared_ptr<VariantCatalog::Lease> lease,
                           variants.Serve(variant, std::move(cancellation)));
    const ServedVariant& served = lease->variant();
    return LeasedModel{.model_name = served.served_as,
                       .model_version = served.model_version,
                       .weights_of_attention = served.weights_of_attention,
                       .lease = lease};
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<Experiments>> Experiments::Create(
    const ServerOptions& options, const ServedModel::Environment& environment, ModelCatalog& models,
    Metrics& metrics, int64_t request_bytes) {
  const int64_t max_bytes = options.experiment_memory_mb * limits::kMiB;
  std::unique_ptr<Experiments> made(
      new Experiments(request_bytes / limits::kStreamMemoryShare, environment.clock));
  HeldLaneOptions lane{.weight = static_cast<int>(options.experiment_weight)};
  std::unique_ptr<HeldLane> gpus;
  if (environment.gpu_scheduler != nullptr) {
    lane.device_threads = environment.gpu_scheduler->device_threads();
    FOVEA_ASSIGN_OR_RETURN(gpus,
                           HeldLane::Create(lane, *environment.gpu_scheduler, environment.clock));
  }
  lane.device_threads = environment.device_threads;
  FOVEA_ASSIGN_OR_RETURN(made->lane_, HeldLane::Create(lane, environment.scheduler,
                                                       environment.clock, std::move(gpus)));
  FOVEA_ASSIGN_OR_RETURN(made->measuring_line_,
                         ExperimentLine::Create({.name = "compare",
                                                 .what = "comparisons and sweeps",
                                                 .max_waiting = limits::kMaxWaitingComparisons,
                                                 .waiting_memory = &made->waiting_memory_}));
  made->comparer_ = std::make_unique<Comparer>(ComparerOptions{.max_bytes = max_bytes}, models,
                                               environment, *made->lane_, *made->measuring_line_);
  made->sweeper_ = std::make_unique<Sweeper>(SweeperOptions{.max_bytes = max_bytes}, models,
                                             environment, *made->lane_, *made->measuring_line_);
  FOVEA_ASSIGN_OR_RETURN(
      made->explainer_,
      Explainer::Create({.max_bytes = max_bytes, .waiting_memory = &made->waiting_memory_}, models,
                        environment, *made->lane_));
  FOVEA_ASSIGN_OR_RETURN(made->variant_catalog_,
                         VariantCatalog::Create({.max_bytes = max_bytes}, models, environment));
  FOVEA_ASSIGN_OR_RETURN(made->variant_server_,
                         VariantServer::Create({}, *made->variant_catalog_, environment.clock));
  ExperimentMeter::CountEnds(metrics.families());
  FOVEA_ASSIGN_OR_RETURN(
      made->traffic_experiments_,
      TrafficExperiments::Create(
          {.device_threads = environment.device_threads,
           .await_idle = [environment](Nanos until) { return environment.AwaitIdle(until); },
           .provenance = ProvenanceNow},
          *made->variant_catalog_, LeaseFrom(*made->variant_catalog_), environment.clock,
          [&metrics](const ExperimentPlan& plan, const std::vector<std::string>& arms) {
            return ObserveExperiment(metrics, plan, arms);
          }));
  return made;
}

void Experiments::FillApi(ServerApiOptions& api) {
  api.comparisons = comparer_.get();
  api.sweeps = sweeper_.get();
  api.explanations = explainer_.get();
  api.variants = variant_server_.get();
  api.experiments = traffic_experiments_.get();
}

void Experiments::CancelLoads() {
  traffic_experiments_->CancelLoads();
  variant_server_->CancelLoads();
}

void Experiments::Stop() {
  // All hear of it before any is waited for.
  explainer_->Close();
  measuring_line_->Close();
  variant_server_->Close();
  explainer_->Stop();
  measuring_line_->Stop();
  variant_server_->Stop();
}

}  // namespace fovea
