#include "model_zoo/layers/linear.h"

#include <ATen/ATen.h>

#include "kernels/linear/linear_chain.h"
#include "kernels/linear/linear_way.h"

namespace fovea::models {
namespace {

at::Tensor RunStep(const kernels::LinearStep& step, const at::Tensor& input,
                   const at::Tensor& residual = {}) {
  return kernels::RunChain({&step, 1}, input.contiguous(), residual);
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, bool bias) : Linear({out, in}, bias) {}

Linear::Linear(at::IntArrayRef weight_shape, bool bias)
    : weight_(AddParameter("weight", weight_shape)) {
  if (bias) {
    bias_ = AddParameter("bias", weight_shape.slice(0, 1));
  }
}

at::Tensor Linear::forward(const at::Tensor& input) const {
  if (matrix_) return RunStep({.matrix = matrix_.get()}, input);
  return packed_ ? packed_->Apply(input) : at::linear(input, weight_.flatten(1), bias_);
}

at::Tensor Linear::ForwardGelu(const at::Tensor& input) const {
  if (matrix_) {
    return RunStep({.matrix = matrix_.get(), .activation = kernels::rows::Activation::kGelu},
                   input);
  }
  return packed_ ? packed_->ApplyGelu(input) : at::gelu(forward(input));
}

at::Tensor Linear::ForwardAdd(const at::Tensor& input, const at::Tensor& residual) const {
  if (matrix_) {
    return RunStep({.matrix = matrix_.get(), .residual = kernels::Residual::kGiven}, input,
                   residual.contiguous());
  }
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
  const at::Tensor weight = weight_.detach().flatten(1);
  const at::Tensor bias = bias_.defined() ? bias_.detach() : bias_;
  const kernels::LinearWay way = placement.device.is_cpu()
                                     ? kernels::FastestLinearWay(placement.dtype)
                                     : kernels::LinearWay::kAten;
  if (const auto products = kernels::ProductsOf(way, placement.dtype)) {
    matrix_ = std::make_shared<kernels::PackedMatrix>(weight, bias, *products);
  } else if (way == kernels::LinearWay::kOneDnn) {
    packed_.emplace(weight, bias, placement.dtype);
  } else {
    return Layer::Prepare(placement);
  }
  weight_.reset();
  bias_.reset();
  ReleaseParameters();
  MarkPrepared(placement);
}

void Linear::ShareWeights(const Layer& loaded) {
  const auto& other = dynamic_cast<const Linear&>(loaded);
  weight_ = other.weight_;
  bias_ = other.bias_;
  matrix_ = other.matrix_;
  packed_ = other.packed_;
  ShareState(loaded);
}

int64_t Linear::OwnBytes() const {
  if (!matrix_ && !packed_) return Layer::OwnBytes();
  if (shared()) return 0;
  return matrix_ ? matrix_->bytes() : packed_->bytes();
}

}  // namespace fovea::models
