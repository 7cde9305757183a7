#include "model_zoo/layers/linear.h"

#include <ATen/ATen.h>

namespace fovea::models {

Linear::Linear(int64_t in, int64_t out, bool bias) : Linear({out, in}, bias) {}

Linear::Linear(at::IntArrayRef weight_shape, bool bias)
    : weight_(AddParameter("weight", weight_shape)) {
  if (bias) {
    bias_ = AddParameter("bias", weight_shape.slice(0, 1));
  }
}

at::Tensor Linear::forward(const at::Tensor& input) const {
  return packed_ ? packed_->Apply(input) : at::linear(input, weight_.flatten(1), bias_);
}

at::Tensor Linear::ForwardGelu(const at::Tensor& input) const {
  return packed_ ? packed_->ApplyGelu(input) : at::gelu(forward(input));
}

at::Tensor Linear::ForwardAdd(const at::Tensor& input, const at::Tensor& residual) const {
  return packed_ ? packed_->ApplyAdd(input, residual) : residual + forward(input);
}

void Linear::FoldInput(const at::Tensor& scale, const at::Tensor& shift) {
  TORCH_INTERNAL_ASSERT(!prepared(), "a batch norm is folded before its linear layer is prepared");
  const at::NoGradGuard no_grad;
  at::Tensor matrix = weight_.flatten(1);  // a view
  const at::Tensor shifted = at::mv(matrix, shift);
  matrix.mul_(scale);
  if (bias_.defined()) {
    bias_.add_(shifted);
  } else {
    bias_ = AddParameter("bias", {matrix.size(0)});
    bias_.copy_(shifted);
  }
}

void Linear::Prepare(const Placement& placement) {
  if (!PackedLinear::Supports(placement)) {
    return Layer::Prepare(placement);
  }
  packed_.emplace(weight_.detach().flatten(1), bias_.defined() ? bias_.detach() : bias_, placement);
  weight_.reset();
  bias_.reset();
  ReleaseParameters();
  MarkPrepared(placement);
}

void Linear::ShareWeights(const Layer& loaded) {
  const auto& other = dynamic_cast<const Linear&>(loaded);
  weight_ = other.weight_;
  bias_ = other.bias_;
  packed_ = other.packed_;
  ShareState(loaded);
}

int64_t Linear::OwnBytes() const {
  if (!packed_) return Layer::OwnBytes();
  return shared() ? 0 : packed_->bytes();
}

}  // namespace fovea::models
