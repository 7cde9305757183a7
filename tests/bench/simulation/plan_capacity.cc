// Replicas for a rate and a p99: plan_capacity RATE P99_MS PER_BATCH_MS PER_IMAGE_MS MAX_BATCH
// [poisson|bursty|diurnal]. docs/operations/scaling.md says where the numbers come from. Exits with
// 1 where no number of replicas does.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/bench/simulation/capacity.h"

namespace fovea::bench {
namespace {

constexpr int kMostReplicas = 10'000;

bool ParseNumber(const char* text, double* value) {
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, *value);
  return parsed.ec == std::errc() && parsed.ptr == end && *value > 0;
}

int Main(int argc, char** argv) {
  double numbers[5];
  bool understood = argc == 6 || argc == 7;
  for (int i = 0; understood && i < 5; ++i) understood = ParseNumber(argv[i + 1], &numbers[i]);
  Demand demand;
  const std::string process = argc == 7 ? argv[6] : "poisson";
  bool known = false;
  for (const auto each :
       {ArrivalProcess::kPoisson, ArrivalProcess::kBursty, ArrivalProcess::kDiurnal}) {
    if (process != ArrivalProcessName(each)) continue;
    demand.process = each;
    known = true;
  }
  if (!understood || !known || numbers[4] > 1024) {
    std::fprintf(stderr,
                 "usage: %s RATE P99_MS PER_BATCH_MS PER_IMAGE_MS MAX_BATCH "
                 "[poisson|bursty|diurnal]\n",
                 argv[0]);
    return 2;
  }
  demand.requests_per_second = numbers[0];
  demand.p99 = static_cast<Nanos>(numbers[1] * kMillisecond);
  const SimulatedModel model{.per_batch = static_cast<Nanos>(numbers[2] * kMillisecond),
                             .per_image = static_cast<Nanos>(numbers[3] * kMillisecond),
                             .max_batch_size = static_cast<int>(numbers[4])};
  std::printf("%8s %6s %10s %10s %10s %6s\n", "replicas", "load", "answered %", "p50 ms", "p99 ms",
              "batch");
  const std::vector<Fleet> fleets = FindReplicas(demand, model, kMostReplicas);
  for (const Fleet& fleet : fleets) {
    std::printf("%8d %6.2f %10.2f %10.1f %10.1f %6.2f\n", fleet.replicas, fleet.load,
                100 * fleet.answered, fleet.p50 * 1e-6, fleet.p99 * 1e-6, fleet.mean_batch);
  }
  const bool met =
      !fleets.empty() && fleets.back().p99 <= demand.p99 && fleets.back().answered == 1;
  if (!met) std::fprintf(stderr, "no number of replicas answers within %g ms\n", numbers[1]);
  return met ? 0 : 1;
}

}  // namespace
}  // namespace fovea::bench

int main(int argc, char** argv) { return fovea::bench::Main(argc, argv); }
