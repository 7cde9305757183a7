#include <algorithm>
#include <vector>

#include "server/imaging/resample.h"
#include "server/imaging/resample_weights.h"

namespace fovea {
namespace {

uint8_t RoundToByte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp((sum + kWeightHalf) >> kWeightBits, 0, 255));
}

struct Rows {
  std::vector<uint8_t> rgb;
  int64_t height, width;
};

Rows Across(const Rows& from, const AxisWeights& weights) {
  Rows to{std::vector<uint8_t>(from.height * weights.outputs() * 3), from.height,
          weights.outputs()};
  for (int64_t y = 0; y < to.height; ++y) {
    for (int64_t x = 0; x < to.width; ++x) {
      for (int64_t c = 0; c < 3; ++c) {
        int32_t sum = 0;
        for (int64_t t = 0; t < weights.count(x); ++t) {
          sum += weights.weights(x)[t] * from.rgb[(y * from.width + weights.start(x) + t) * 3 + c];
        }
        to.rgb[(y * to.width + x) * 3 + c] = RoundToByte(sum);
      }
    }
  }
  return to;
}

Rows Down(const Rows& from, const AxisWeights& weights) {
  Rows to{std::vector<uint8_t>(weights.outputs() * from.width * 3), weights.outputs(), from.width};
  for (int64_t y = 0; y < to.height; ++y) {
    for (int64_t i = 0; i < to.width * 3; ++i) {
      int32_t sum = 0;
      for (int64_t t = 0; t < weights.count(y); ++t) {
        sum += weights.weights(y)[t] * from.rgb[(weights.start(y) + t) * from.width * 3 + i];
      }
      to.rgb[y * to.width * 3 + i] = RoundToByte(sum);
    }
  }
  return to;
}

}  // namespace

void ResampleReference(const uint8_t* rgb, int64_t height, int64_t width, const SourceBox& box,
                       const ResizePlan& plan, Interpolation interpolation, uint8_t* out) {
  const Rows source{{rgb, rgb + height * width * 3}, height, width};
  const AxisWeights across({width, box.left, box.width}, plan.resized_width, plan.left, plan.width,
                           interpolation);
  const AxisWeights down({height, box.top, box.height}, plan.resized_height, plan.top, plan.height,
                         interpolation);
  const Rows resized = GoesDownFirst(height, width, plan) ? Across(Down(source, down), across)
                                                          : Down(Across(source, across), down);
  std::ranges::copy(resized.rgb, out);
}

}  // namespace fovea
