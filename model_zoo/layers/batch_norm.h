// Batch normalisation of maps [N, channels, height, width].
//   Ioffe and Szegedy 2015. Parameters `weight`, `bias` and buffers `running_mean`, `running_var`
//   [channels], as torch's BatchNorm2d; `num_batches_tracked` is not read (WeightNames of a
//   backbone ignore it).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {

class BatchNorm2d final : public Layer {
 public:
  explicit BatchNorm2d(int64_t channels, double epsilon = 1e-5);

  // With the running statistics; while is_training(), with the batch's, and the running ones follow
  // (momentum 0.1). A folded one returns its input.
  at::Tensor forward(const at::Tensor& map) const;

  // Makes `before`, the convolution whose output is this layer's input, do this layer's work: for
  // the Prepare of the layer that owns both, before its children are prepared. One that is shared
  // was folded where it was loaded.
  void FoldInto(Conv2d& before);
  // Likewise `behind`, the linear layer over channels whose only input is this layer's output.
  void FoldInto(Linear& behind);

  // What it multiplies and adds at inference, FP32 [channels].
  struct Affine {
    at::Tensor scale;
    at::Tensor shift;
  };
  Affine affine() const;

  // Left to itself it keeps one multiplication and one addition, in one pass.
  void Prepare(const Placement& placement) override;
  void ShareWeights(const Layer& loaded) override;

 private:
  int64_t OwnBytes() const override;

  const double epsilon_;
  at::Tensor weight_;
  at::Tensor bias_;
  at::Tensor running_mean_;
  at::Tensor running_var_;
  bool folded_ = false;
  Affine prepared_;  // [1, channels, 1, 1]
};

}  // namespace fovea::models
