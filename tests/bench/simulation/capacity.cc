#include "tests/bench/simulation/capacity.h"

#include <algorithm>
#include <cmath>

#include "tests/bench/simulation/schedulers.h"

namespace fovea::bench {
namespace {

double LoadOf(const Demand& demand, const SimulatedModel& model, int replicas) {
  const double full_batches = demand.requests_per_second / replicas / model.max_batch_size;
  return full_batches * static_cast<double>(model.RunTime(model.max_batch_size)) / kSecond;
}

}  // namespace

Fleet SimulateFleet(const Demand& demand, const SimulatedModel& model, int replicas) {
  Workload workload{.models = {model}};
  workload.models[0].popularity = 1;
  workload.models[0].instances = 1;
  workload.models[0].threads_wanted = LoadOf(demand, model, replicas);
  workload.threads_wanted = workload.models[0].threads_wanted;
  for (const Nanos at : ArrivalTimes(demand.requests_per_second / replicas, demand.duration,
                                     demand.seed, demand.process)) {
    workload.arrivals.push_back({.at = at, .patience = 10 * demand.p99});
  }
  Outcome outcome = RunDispatcher(workload, /*device_threads=*/1, {});
  return {.replicas = replicas,
          .load = workload.threads_wanted,
          .p50 = outcome.Latency(0.5),
          .p99 = outcome.Latency(0.99),
          .answered =
              outcome.arrived == 0 ? 1 : static_cast<double>(outcome.answered()) / outcome.arrived,
          .mean_batch = outcome.MeanBatch()};
}

std::vector<Fleet> FindReplicas(const Demand& demand, const SimulatedModel& model, int most) {
  std::vector<Fleet> fleets;
  if (model.RunTime(1) > demand.p99) return fleets;
  const int fewest = std::max(1, static_cast<int>(std::ceil(LoadOf(demand, model, 1))));
  for (int replicas = fewest; replicas <= most; ++replicas) {
    fleets.push_back(SimulateFleet(demand, model, replicas));
    if (fleets.back().p99 <= demand.p99 && fleets.back().answered == 1) break;
  }
  return fleets;
}

}  // namespace fovea::bench
