// Replicas for a rate and a p99: fovea-capacity RATE P99_MS SWEEP.csv [poisson|bursty|diurnal].
// docs/operations/scaling.md says where the file comes from. Exits with 1 where no number of
// replicas does.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/lost_output.h"
#include "tests/bench/simulation/batch_curve.h"
#include "tests/bench/simulation/capacity.h"

namespace fovea::bench {
namespace {

constexpr int kMostReplicas = 10'000;

bool ParseNumber(const char* text, double* value) {
  const char* end = text + std::strlen(text);
  const auto parsed = std::from_chars(text, end, *value);
  return parsed.ec == std::errc() && parsed.ptr == end && *value > 0;
}

// Whether some number of replicas meets the demand.
bool Plan(const Demand& demand, const BatchCurve& curve) {
  const int largest = curve.model.max_batch_size;
  const double full = static_cast<double>(curve.model.RunTime(largest)) / kMillisecond;
  std::printf("%s: at most %.1f images/s a replica, in batches of %d\n", curve.name.c_str(),
              1e3 * largest / full, largest);
  std::printf("%8s %6s %10s %10s %10s %6s\n", "replicas", "load", "answered %", "p50 ms", "p99 ms",
              "batch");
  const std::vector<Fleet> fleets = FindReplicas(demand, curve.model, kMostReplicas);
  for (const Fleet& fleet : fleets) {
    std::printf("%8d %6.2f %10.2f %10.1f %10.1f %6.2f\n", fleet.replicas, fleet.load,
                100 * fleet.answered, fleet.p50 * 1e-6, fleet.p99 * 1e-6, fleet.mean_batch);
  }
  const bool met =
      !fleets.empty() && fleets.back().p99 <= demand.p99 && fleets.back().answered == 1;
  if (!met) {
    std::printf("no number of replicas answers within %g ms: an image alone takes %.1f ms\n",
                demand.p99 * 1e-6, curve.model.RunTime(1) * 1e-6);
  }
  return met;
}

int Main(int argc, char** argv) {
  double rate = 0, p99_ms = 0;
  bool understood =
      (argc == 4 || argc == 5) && ParseNumber(argv[1], &rate) && ParseNumber(argv[2], &p99_ms);
  Demand demand{.requests_per_second = rate, .p99 = static_cast<Nanos>(p99_ms * kMillisecond)};
  const std::string process = argc == 5 && *argv[4] != '\0' ? argv[4] : "poisson";
  bool known = false;
  for (const auto each :
       {ArrivalProcess::kPoisson, ArrivalProcess::kBursty, ArrivalProcess::kDiurnal}) {
    if (process != ArrivalProcessName(each)) continue;
    demand.process = each;
    known = true;
  }
  if (!understood || !known) {
    const bool asked = argc == 2 && std::string_view(argv[1]) == "--help";
    std::fprintf(asked ? stdout : stderr,
                 "Usage: fovea-capacity RATE P99_MS SWEEP.csv [poisson|bursty|diurnal]\n");
    return asked ? 0 : 2;
  }
  std::ifstream file(argv[3], std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const auto curves = ReadBatchCurves(text.str());
  if (!file || !curves.ok()) {
    std::fprintf(stderr, "%s: %s\n", argv[3],
                 file ? std::string(curves.status().message()).c_str() : "cannot be read");
    return 2;
  }
  bool all = true;
  for (const BatchCurve& curve : *curves) all &= Plan(demand, curve);
  return all ? 0 : 1;
}

}  // namespace
}  // namespace fovea::bench

int main(int argc, char** argv) {
  fovea::FailWhereOutputIsLost("fovea-capacity");
  return fovea::bench::Main(argc, argv);
}
