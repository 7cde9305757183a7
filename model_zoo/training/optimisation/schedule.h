// The learning rate over a training: linear warm-up, then half a cosine.
//   Loshchilov and Hutter, "SGDR", ICLR 2017, equation 5 without restarts; warm-up as in DeiT.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace fovea::models::training {

struct Schedule {
  double peak = 1e-3;
  double final_share = 0.01;  // of the peak, reached at the last step
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;

  // Of step 0, 1, ..., total_steps - 1.
  double At(int64_t step) const {
    if (step < warmup_steps) {
      return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
    }
    const int64_t decay_steps = std::max<int64_t>(1, total_steps - 1 - warmup_steps);
    const double done = static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps);
    const double floor = peak * final_share;
    return floor + (peak - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, done)));
  }
};

}  // namespace fovea::models::training
