// RP-CPE: residual parallel conditional positional encoding, and its parts.
//   LinGlo (Rethinking Query-Key Pairwise Interactions in Vision Transformers), section 3.2, figure
//   2 and section 5.3.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model_zoo/layers/layer.h"

namespace fovea::models {

struct RpCpeOptions {
  int64_t channels = 0;
  int64_t branches = 4;  // 1: CPE and R-CPE
  bool skip = true;      // adds its input; without: CPE and P-CPE
};

// The sum of depth-wise 3x3 convolutions of a map: parameters `weight` [branches, channels, 3, 3]
// and `bias` [branches, channels]. Prepared, it holds one convolution in FP32, whatever the type of
// the activations.
class RpCpe final : public Layer {
 public:
  explicit RpCpe(const RpCpeOptions& options);

  // [N, channels, height, width] -> the same; channels-last where the input is.
  at::Tensor forward(const at::Tensor& map) const;
  // gelu(forward(map)), the exact one.
  at::Tensor ForwardGelu(const at::Tensor& map) const;

  void Prepare(const Placement& placement) override;
  void ShareWeights(const Layer& loaded) override;

 private:
  int64_t OwnBytes() const override;

  const bool skip_;
  at::Tensor weight_;  // of the prepared layer: one branch
  at::Tensor bias_;
};

}  // namespace fovea::models
