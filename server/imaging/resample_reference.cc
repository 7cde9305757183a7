#include <algorithm>
#include <vector>

#include "server/imaging/resample.h"
#include "server/imaging/resample_weights.h"

namespace fovea {
namespace {

uint8_t RoundToByte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp((sum + kWeightHalf) >> kWeightBits, 0, 255));
}

}  // namespace

void ResampleReference(const uint8_t* rgb, int64_t height, int64_t width, const SourceBox& box,
                       const ResizePlan& plan, Interpolation interpolation, uint8_t* out) {
  std::vector<uint8_t> rows(height * plan.width * 3);
  const AxisWeights across({width, box.left, box.width}, plan.resized_width, plan.left, plan.width,
                           interpolation);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < plan.width; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        int32_t sum = 0;
        for (int64_t t = 0; t < across.count(x); ++t) {
          sum += across.weights(x)[t] * rgb[(y * width + across.start(x) + t) * 3 + c];
        }
        rows[(y * plan.width + x) * 3 + c] = RoundToByte(sum);
      }
    }
  }
  const AxisWeights down({height, box.top, box.height}, plan.resized_height, plan.top, plan.height,
                         interpolation);
  for (int64_t y = 0; y < plan.height; ++y) {
    for (int64_t i = 0; i < plan.width * 3; ++i) {
      int32_t sum = 0;
      for (int64_t t = 0; t < down.count(y); ++t) {
        sum += down.weights(y)[t] * rows[(down.start(y) + t) * plan.width * 3 + i];
      }
      out[y * plan.width * 3 + i] = RoundToByte(sum);
    }
  }
}

}  // namespace fovea
