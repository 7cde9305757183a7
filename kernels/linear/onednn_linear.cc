// GCC 12 does not see that an empty optional<SymInt> is not destroyed on the dispatcher's boxed
// path.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include "kernels/linear/onednn_linear.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string_view>

namespace fovea::kernels {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Scalars = c10::List<std::optional<at::Scalar>>;

template <typename Signature>
c10::TypedOperatorHandle<Signature> Operator(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

at::Tensor Pointwise(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias,
                     std::string_view epilogue, std::optional<std::string_view> algorithm) {
  static const auto op =
      Operator<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                          std::string_view, Scalars, std::optional<std::string_view>)>(
          "mkldnn::_linear_pointwise");
  return op.call(input, weight, bias, epilogue, Scalars(), algorithm);
}

}  // namespace

bool OneDnnLinear::Supports(c10::ScalarType type) {
  if (!at::hasMKLDNN() || !at::globalContext().userEnabledMkldnn()) {
    return false;
  }
  static const auto bf16 = Operator<bool()>("mkldnn::_is_mkldnn_bf16_supported");
  return type == at::kFloat || (type == at::kBFloat16 && bf16.call());
}

OneDnnLinear::OneDnnLinear(const at::Tensor& weight, const at::Tensor& bias, c10::ScalarType type) {
  static const auto reorder = Operator<at::Tensor(const at::Tensor&, std::optional<c10::SymInt>)>(
      "mkldnn::_reorder_linear_weight");
  static const auto packed_bytes = Operator<int64_t(const at::Tensor&)>("mkldnn::_nbytes");
  const std::optional<c10::SymInt> any_rows;  // one layout for every batch size
  weight_ = reorder.call(weight.to(type).contiguous(), any_rows);
  bytes_ = packed_bytes.call(weight_);
  if (bias.defined()) {
    bias_ = bias.to(type).contiguous();
    bytes_ += static_cast<int64_t>(bias_->nbytes());
  }
}

at::Tensor OneDnnLinear::Apply(const at::Tensor& input) const {
  return Pointwise(input, weight_, bias_, "none", "");
}

at::Tensor OneDnnLinear::ApplyGelu(const at::Tensor& input) const {
  return Pointwise(input, weight_, bias_, "gelu", "none");
}

at::Tensor OneDnnLinear::ApplyAdd(const at::Tensor& input, const at::Tensor& residual) const {
  static const auto op =
      Operator<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                          const OptionalTensor&, std::string_view)>("mkldnn::_linear_pointwise",
                                                                    "binary");
  return op.call(input, residual, weight_, bias_, "add");
}

}  // namespace fovea::kernels
