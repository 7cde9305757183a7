// The progress of work that loads variants, measures them or has them served. The fields are those
// of proto/fovea/v1/comparison.proto.
#pragma once

#include <functional>
#include <vector>

#include "base/statistics.h"

namespace fovea {

struct TimeSoFar {
  Quartiles compute_ms;
  double ratio = 1;  // the median of the rounds' own ratios
};

struct ComparisonProgress {
  enum class Phase { kWaiting, kLoading, kMeasuring, kAnalysing };
  Phase phase = Phase::kWaiting;
  int done = 0;
  int total = 0;
  // One for each variant of a comparison, the baseline first; empty before the first round.
  std::vector<TimeSoFar> so_far;
};

// Called now and then, on a thread of the one that does the work; returns quickly.
using ProgressListener = std::function<void(const ComparisonProgress&)>;

}  // namespace fovea
