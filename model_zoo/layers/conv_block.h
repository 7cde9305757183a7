// A convolution, with a batch norm behind it where there is one, as torchvision numbers the two
// (Conv2dNormActivation): "0" and "1". What activates follows.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "model_zoo/layers/batch_norm.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer.h"

namespace fovea::models {

class ConvBlock final : public Layer {
 public:
  // With a norm the convolution has no bias.
  ConvBlock(const Conv2dOptions& options, bool normed)
      : conv_(Add<Conv2d>("0", normed ? options.NoBias() : options)) {
    if (normed) norm_ = Add<BatchNorm2d>("1", options.out);
  }

  // map [N, in, height, width] -> [N, out, height', width'].
  at::Tensor forward(const at::Tensor& map) const {
    const at::Tensor out = conv_->forward(map);
    return norm_ ? norm_->forward(out) : out;
  }

  void Prepare(const Placement& placement) override {
    if (norm_) norm_->FoldInto(*conv_);
    Layer::Prepare(placement);
  }

 private:
  const std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<BatchNorm2d> norm_;  // null: none
};

}  // namespace fovea::models
