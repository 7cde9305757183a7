#include "model_zoo/layers/linear.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/linear/linear_chain.h"
#include "kernels/linear/linear_way.h"

namespace fovea::models {
namespace {

at::Tensor RunStep(const kernels::LinearStep& step, const at::Tensor& input,
                   const at::Tensor& residual = {}) {
  return kernels::RunChain({&step, 1}, input.contiguous(), residual);
}

}  // namespace

c10::ScalarType Int8ActivationType() { return kernels::Int8RowType(); }

Linear::Linear(int64_t in, int64_t out, bool bias) : Linear({out, in}, bias) {}

Linear::Linear(at::IntArrayRef weight_shape, bool bias)
    : weight_(AddParameter("weight", weight_shape)) {
  if (bias) {
    bias_ = AddParameter("bias", weight_shape.slice(0, 1));
  }
}

Linear::Linear(const at::Tensor& weight, const at::Tensor& bias)
    : weight_(register_parameter("weight", weight.detach(), /*requires_grad=*/false)) {
  if (bias.defined()) bias_ = register_parameter("bias", bias.detach(), /*requires_grad=*/false);
}

at::Tensor Linear::forward(const at::Tensor& input) const {
  if (packed_matrix_) return RunStep({.matrix = packed_matrix_.get()}, input);
  if (see_) see_(input);
  return onednn_ ? onednn_->Apply(input) : at::linear(input, weight_.flatten(1), bias_);
}

at::Tensor Linear::ForwardGelu(const at::Tensor& input) const {
  if (packed_matrix_) {
    return RunStep({.matrix = packed_matrix_.get(), .activation = kernels::rows::Activation::kGelu},
                   input);
  }
  return onednn_ ? onednn_->ApplyGelu(input) : at::gelu(forward(input));
}

at::Tensor Linear::ForwardAdd(const at::Tensor& input, const at::Tensor& residual) const {
  if (packed_matrix_) {
    return RunStep({.matrix = packed_matrix_.get(), .residual = kernels::Residual::kGiven}, input,
                   residual.contiguous());
  }
  return onednn_ ? onednn_->ApplyAdd(input, residual) : residual + forward(input);
}

void Linear::FoldInput(const at::Tensor& scale, const at::Tensor& shift) {
  TORCH_INTERNAL_ASSERT(!prepared(), "a batch norm is folded before its linear layer is prepared");
  const at::NoGradGuard no_grad;
  at::Tensor matrix = weight_.flatten(1);  // a view
  const at::Tensor shifted = at::mv(matrix, shift);
  matrix.mul_(scale);
  input_scales_.reset();  // of what it took before
  if (bias_.defined()) {
    bias_.add_(shifted);
  } else {
    bias_ = AddParameter("bias", {matrix.size(0)});
    bias_.copy_(shifted);
  }
}

void Linear::SetInputScales(const at::Tensor& scales) {
  TORCH_INTERNAL_ASSERT(!prepared(), "scales are set before a linear layer is prepared");
  const int64_t in = weight_.numel() / weight_.size(0);
  TORCH_CHECK_VALUE(scales.dim() == 1 && scales.size(0) == in, "the input scales are ",
                    scales.sizes(), ", and the layer has ", in, " inputs");
  // Of numbers whose reciprocals are finite, too.
  TORCH_CHECK_VALUE(((scales > 1e-30) & (scales < 1e30)).all().item<bool>(),
                    "an input scale is not between 1e-30 and 1e30");
  input_scales_ = scales.to(at::kFloat).contiguous();
}

void Linear::Prepare(const Placement& placement) {
  const at::Tensor weight = weight_.detach().flatten(1);
  const at::Tensor bias = bias_.defined() ? bias_.detach() : bias_;
  see_ = nullptr;
  const bool int8 = placement.int8 && !keeps_precision_;
  const c10::ScalarType type = int8 ? at::kChar : placement.dtype;
  const kernels::LinearWay way =
      placement.device.is_cpu()
          ? kernels::FastestLinearWay(type, std::min(weight.size(0), weight.size(1)))
          : kernels::LinearWay::kAten;
  TORCH_CHECK_VALUE(!int8 || way != kernels::LinearWay::kAten,
                    "linear layers in INT8 need a processor with AVX2");
  if (const auto products = kernels::ProductsOf(way, type)) {
    packed_matrix_ = std::make_shared<kernels::PackedMatrix>(weight, bias, *products,
                                                             kernels::PacksForAmx(way, *products),
                                                             int8 ? input_scales_ : at::Tensor());
  } else if (way == kernels::LinearWay::kOneDnn) {
    onednn_.emplace(weight, bias, placement.dtype);
  } else {
    return Layer::Prepare(placement);
  }
  weight_.reset();
  bias_.reset();
  input_scales_.reset();
  ReleaseParameters();
  MarkPrepared(placement);
}

void Linear::ShareWeights(const Layer& loaded) {
  const auto& other = dynamic_cast<const Linear&>(loaded);
  weight_ = other.weight_;
  bias_ = other.bias_;
  packed_matrix_ = other.packed_matrix_;
  onednn_ = other.onednn_;
  ShareState(loaded);
}

int64_t Linear::OwnBytes() const {
  if (!packed_matrix_ && !onednn_) return Layer::OwnBytes();
  if (shared()) return 0;
  return packed_matrix_ ? packed_matrix_->bytes() : onednn_->bytes();
}

}  // namespace fovea::models
