// A convolution with a batch norm behind it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "model_zoo/layers/batch_norm.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/layer.h"

namespace fovea::models {

// Under the names that the architecture publishes for the two. Prepared, it is one convolution.
class NormedConv2d final : public Layer {
 public:
  NormedConv2d(const std::string& conv, const std::string& norm, const Conv2dOptions& options)
      : conv_(Add<Conv2d>(conv, options)), norm_(Add<BatchNorm2d>(norm, options.out)) {}

  // map [N, in, height, width] -> [N, out, height', width'].
  at::Tensor forward(const at::Tensor& map) const { return norm_->forward(conv_->forward(map)); }

  void Prepare(const Placement& placement) override {
    norm_->FoldInto(*conv_);
    Layer::Prepare(placement);
  }

 private:
  const std::shared_ptr<Conv2d> conv_;
  const std::shared_ptr<BatchNorm2d> norm_;
};

}  // namespace fovea::models
