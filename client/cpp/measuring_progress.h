// How far a comparison or a sweep is, as the server says it while it measures. Plain data; the
// fields are those of proto/fovea/v1/comparison.proto.
#pragma once

#include <vector>

#include "base/statistics.h"

namespace fovea::client {

struct TimeSoFar {
  Quartiles compute_ms;
  double ratio = 1;  // to the baseline: the median of the rounds' own ratios
};

struct MeasuringProgress {
  enum class Phase { kWaiting, kLoading, kMeasuring, kAnalysing };
  Phase phase = Phase::kWaiting;
  int done = 0;
  int total = 0;
  // One for each variant of a comparison that measures, the baseline first; empty before the first
  // round.
  std::vector<TimeSoFar> so_far;
};

}  // namespace fovea::client
