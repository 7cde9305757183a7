// What RP-CPE should have computed, in fp64.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/rounding.h"

namespace fovea::kernels {

enum class RpCpeLayout { kChannelsLast, kAfterClassToken, kPlanes, kCropped, kTransposed };

inline std::vector<RpCpeLayout> AllLayouts() {
  return {RpCpeLayout::kChannelsLast, RpCpeLayout::kAfterClassToken, RpCpeLayout::kPlanes,
          RpCpeLayout::kCropped, RpCpeLayout::kTransposed};
}

// A random [batch, channels, height, width] map.
inline at::Tensor RandomMap(RpCpeLayout layout, int64_t batch, int64_t channels, int64_t height,
                            int64_t width, at::ScalarType type) {
  switch (layout) {
    case RpCpeLayout::kChannelsLast:
      return at::randn({batch, height, width, channels}).to(type).permute({0, 3, 1, 2});
    case RpCpeLayout::kAfterClassToken:
      return at::randn({batch, 1 + height * width, channels})
          .to(type)
          .narrow(1, 1, height * width)
          .unflatten(1, {height, width})
          .permute({0, 3, 1, 2});
    case RpCpeLayout::kPlanes:
      return at::randn({batch, channels, height, width}).to(type);
    case RpCpeLayout::kCropped:  // planes with a margin, an odd number of elements in
      return at::randn({batch, channels, height + 2, width + 3})
          .to(type)
          .narrow(2, 1, height)
          .narrow(3, 1, width);
    case RpCpeLayout::kTransposed:
      return at::randn({batch, channels, width, height}).to(type).transpose(2, 3);
  }
  return {};
}

struct RpCpeCase {
  at::Tensor x, weights, biases;
};

inline RpCpeCase RandomRpCpe(RpCpeLayout layout, int64_t batch, int64_t branches, int64_t channels,
                             int64_t height, int64_t width, at::ScalarType type) {
  return {RandomMap(layout, batch, channels, height, width, type),
          (0.3 * at::randn({branches, channels, 3, 3})).to(type),
          at::randn({branches, channels}).to(type)};
}

// Written apart from the operator's reference, which it also checks: shifted products, no
// convolution. Sums are kept in fp32 whatever the map's type.
inline Rounded ExpectedOf(const RpCpeCase& c) {
  const at::Tensor x = c.x.to(at::kDouble).contiguous();
  const auto sum_of = [&](const at::Tensor& map, const at::Tensor& weights,
                          const at::Tensor& biases) {
    const at::Tensor padded = at::constant_pad_nd(map, {1, 1, 1, 1});
    at::Tensor sum = map + biases.sum(0).view({1, -1, 1, 1});
    for (int64_t tap = 0; tap < 9; ++tap) {
      const at::Tensor weight = weights.select(2, tap / 3).select(2, tap % 3).sum(0);
      sum = sum + padded.narrow(2, tap / 3, x.size(2)).narrow(3, tap % 3, x.size(3)) *
                      weight.view({1, -1, 1, 1});
    }
    return sum;
  };
  const at::Tensor weights = c.weights.to(at::kDouble), biases = c.biases.to(at::kDouble);
  const auto terms = static_cast<double>(1 + 10 * weights.size(0));
  const double sums = PrecisionOf(c.x.scalar_type()).sums;
  return {sum_of(x, weights, biases),
          sum_of(x.abs(), weights.abs(), biases.abs()).square() * (terms * sums * sums)};
}

}  // namespace fovea::kernels
