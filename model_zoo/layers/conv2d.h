// A convolution over maps [N, channels, height, width], of any memory layout.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <memory>

#include "model_zoo/layers/layer.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {

struct Conv2dOptions {
  int64_t in = 0;
  int64_t out = 0;
  std::array<int64_t, 2> kernel = {1, 1};
  std::array<int64_t, 2> stride = {1, 1};
  std::array<int64_t, 2> padding = {0, 0};
  int64_t groups = 1;
  bool bias = true;
  // The most that a map of the model's sizes is high and wide; 0: unknown. Where that is little,
  // the weight is not held in the form for large maps too: a larger map is convolved directly.
  std::array<int64_t, 2> largest_map = {0, 0};

  // A kernel of side x side.
  static Conv2dOptions Square(int64_t in, int64_t out, int64_t side, int64_t stride = 1,
                              int64_t padding = 0);
  Conv2dOptions Groups(int64_t n) const;                    // the same with groups
  Conv2dOptions NoBias() const;                             // the same without a bias
  Conv2dOptions UpTo(int64_t height, int64_t width) const;  // the same, of maps up to this
};

// Parameters `weight` [out, in/groups, kernel] and `bias` [out], as torch's Conv2d.
class Conv2d final : public Layer {
 public:
  explicit Conv2d(const Conv2dOptions& options);

  // [N, in, height, width] -> [N, out, ...]. Once prepared for the CPU, channels-last: what oneDNN
  // is fastest in, and what tokens seen as a map are. Elsewhere in the memory layout of the input.
  // Prepared for the CPU, kernels of 1x1 without padding and groups are linear layers over the
  // channels of each position, large maps in FP32 go to kernels/vision/winograd3x3, and all others
  // to oneDNN.
  at::Tensor forward(const at::Tensor& map) const;

  // Multiplies output channel i by scale[i] and adds shift[i] (FP32 [out]) from now on. Before
  // Prepare, for good: how a batch norm behind it is folded.
  void Fold(const at::Tensor& scale, const at::Tensor& shift);

  void Prepare(const Placement& placement) override;
  void ShareWeights(const Layer& loaded) override;

 private:
  int64_t OwnBytes() const override;

  const Conv2dOptions options_;
  at::Tensor weight_;           // undefined where pointwise_ has it, as bias_ then is
  at::Tensor bias_;             // undefined without one
  at::Tensor winograd_weight_;  // for kernels/vision/winograd3x3; undefined where none goes there
  std::shared_ptr<const Linear> pointwise_;  // what IsPointwise runs as, once prepared for the CPU
};

}  // namespace fovea::models
