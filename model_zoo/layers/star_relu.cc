#include "model_zoo/layers/star_relu.h"

#include <ATen/ATen.h>

namespace fovea::models {

StarRelu::StarRelu() : scale_(AddParameter("scale", {1})), bias_(AddParameter("bias", {1})) {}

at::Tensor StarRelu::forward(at::Tensor input) const {
  if (!prepared()) return scale_ * at::relu(input).square() + bias_;
  input.relu_();
  at::addcmul_out(input, bias_, input, input, prepared_scale_);  // in one pass
  return input;
}

void StarRelu::Prepare(const Placement& placement) {
  prepared_scale_ = scale_.item<double>();
  prepared_bias_ = bias_.item<double>();
  Layer::Prepare(placement);
}

void StarRelu::ShareWeights(const Layer& loaded) {
  const auto& other = dynamic_cast<const StarRelu&>(loaded);
  scale_ = other.scale_;
  bias_ = other.bias_;
  prepared_scale_ = other.prepared_scale_;
  prepared_bias_ = other.prepared_bias_;
  ShareState(loaded);
}

}  // namespace fovea::models
