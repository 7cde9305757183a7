// What batches took, as `fovea sweep --over batch --csv` writes it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/simulation/workload.h"

namespace fovea::bench {

struct BatchCurve {
  std::string name;      // "MODEL, ATTENTION"
  SimulatedModel model;  // whose batches take as long as measured, up to the largest that was
};

// A curve for each model and attention of the file; of its columns model_name, curve, over, value
// and compute_ms_median are read. Points that were not measured are left out. INVALID_ARGUMENT: it
// is no such file, or a curve has no batch of one image.
absl::StatusOr<std::vector<BatchCurve>> ReadBatchCurves(const std::string& csv);

}  // namespace fovea::bench
