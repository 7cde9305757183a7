#include "tests/bench/simulation/outcome.h"

#include <algorithm>

namespace fovea::bench {

Nanos Outcome::Latency(double quantile) {
  if (latencies.empty()) return 0;
  std::sort(latencies.begin(), latencies.end());
  const auto rank = static_cast<size_t>(quantile * static_cast<double>(latencies.size()));
  return latencies[std::min(rank, latencies.size() - 1)];
}

}  // namespace fovea::bench
