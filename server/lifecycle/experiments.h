// All that --enable-experiments adds to a server, in the order in which it is made and stopped.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/api/server_api.h"
#include "server/compare/experiment_line.h"
#include "server/compare/explain/explainer.h"
#include "server/compare/held_lane.h"
#include "server/compare/live/traffic_experiments.h"
#include "server/compare/measure/comparer.h"
#include "server/compare/measure/sweeper.h"
#include "server/compare/serve/variant_catalog.h"
#include "server/compare/serve/variant_server.h"
#include "server/core/memory_budget.h"
#include "server/core/model_catalog.h"
#include "server/lifecycle/options.h"
#include "server/observe/metrics.h"
#include "server/pipeline/served_model.h"

namespace fovea {

// Thread-safe but for the stop, whose steps come one after the other.
class Experiments {
 public:
  // `models` were made by ServedModel::Create with `environment`; all outlive it. `request_bytes`:
  // that all requests may hold. UNAVAILABLE server.no_thread.
  static absl::StatusOr<std::unique_ptr<Experiments>> Create(
      const ServerOptions& options, const ServedModel::Environment& environment,
      ModelCatalog& models, Metrics& metrics, int64_t request_bytes);

  // The models, and the variants that are served beside them.
  ModelCatalog& catalog() { return *variant_catalog_; }
  // What callers reach. It outlives the api that is made of them.
  void FillApi(ServerApiOptions& api);

  // First of a stop: all loads are given up, before any is waited for. Waits for nothing.
  void CancelLoads();
  // No more copies of requests: they are made for nobody who waits.
  void StopLiveComparisons() { traffic_experiments_->Stop(); }
  // Ends all calls, each within a pass or a part of one, and waits for that. Their callers hear
  // why, which takes the transports.
  void Stop();

 private:
  Experiments(int64_t waiting_bytes, Clock& clock) : waiting_memory_(waiting_bytes, clock) {}

  MemoryBudget waiting_memory_;  // what experiments hold that wait for others
  std::unique_ptr<HeldLane> lane_;
  std::unique_ptr<Comparer> comparer_;
  std::unique_ptr<Sweeper> sweeper_;
  std::unique_ptr<ExperimentLine> measuring_line_;  // its thread uses these two
  std::unique_ptr<Explainer> explainer_;
  std::unique_ptr<VariantCatalog> variant_catalog_;
  std::unique_ptr<VariantServer> variant_server_;
  std::unique_ptr<TrafficExperiments> traffic_experiments_;  // its arms are variants
};

}  // namespace fovea
