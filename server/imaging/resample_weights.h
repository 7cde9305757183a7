// The filters of a resize along one axis.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/imaging/resize_plan.h"

namespace fovea {

// Weights are integers that stand for weight * 2^kWeightBits.
inline constexpr int kWeightBits = 22;
// Added to a sum before it is shifted right by kWeightBits: rounds to nearest.
inline constexpr int32_t kWeightHalf = 1 << (kWeightBits - 1);

// Samples along an axis, and where in them that lies which is resized.
struct SourceAxis {
  int64_t samples = 0;
  double begin = 0;
  double length = 0;

  // Nothing is to be done.
  bool KeepsItsSize(int64_t to) const {
    return samples == to && begin == 0 && length == static_cast<double>(to);
  }
};

// Output i, counted from the window's first, is the sum over t < count of weights[t] * input[start
// + t].
class AxisWeights {
 public:
  // Outputs [first, first + outputs) of resizing `from` to `to` samples.
  AxisWeights(const SourceAxis& from, int64_t to, int64_t first, int64_t outputs,
              Interpolation interpolation);

  int64_t outputs() const { return static_cast<int64_t>(ranges_.size()); }
  int64_t start(int64_t output) const { return ranges_[output].start; }
  int64_t count(int64_t output) const { return ranges_[output].count; }
  std::span<const int32_t> weights(int64_t output) const {
    return {weights_.data() + output * max_count_, static_cast<size_t>(count(output))};
  }
  // The most inputs that one output takes.
  int64_t max_count() const { return max_count_; }

 private:
  struct Range {
    int64_t start, count;
  };
  std::vector<Range> ranges_;
  std::vector<int32_t> weights_;  // [outputs, max_count_], zeros after `count`
  int64_t max_count_ = 0;
};

}  // namespace fovea
