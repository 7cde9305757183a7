// How fast a model in other numbers is, beside the same model in fp32.
#pragma once

#include <cstdint>

#include "model_zoo/model.h"

namespace fovea {

// Images per second: medians.
struct Speeds {
  double fp32 = 0, other = 0;
};

// Both prepared, of one size. Passes of `batch` images over each in turn, in memory that is kept
// from pass to pass as a lane of the server keeps it.
Speeds MeasureSpeeds(const models::Model& fp32, const models::Model& other, int64_t batch);

}  // namespace fovea
