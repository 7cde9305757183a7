#include "kernels/onednn/onednn_conv2d.h"

#include <ATen/ATen.h>

#include <string_view>

#include "kernels/onednn/private_operators.h"

namespace fovea::kernels {
namespace {

using onednn::Operator;
using OptionalTensor = std::optional<at::Tensor>;
using Scalars = c10::List<std::optional<at::Scalar>>;

constexpr std::array<int64_t, 2> kDilation = {1, 1};

}  // namespace

OneDnnConv2d::OneDnnConv2d(const at::Tensor& weight, const at::Tensor& bias,
                           const OneDnnConv2dOptions& options, c10::ScalarType type)
    : options_(options) {
  static const auto reorder =
      Operator<at::Tensor(const at::Tensor&, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef,
                          int64_t, at::OptionalIntArrayRef)>("mkldnn::_reorder_convolution_weight");
  const at::OptionalIntArrayRef any_size;  // one layout for every map
  weight_ = reorder.call(weight.to(type).contiguous(), options.padding, options.stride, kDilation,
                         options.groups, any_size);
  bytes_ = onednn::BytesOf(weight_);
  if (bias.defined()) {
    bias_ = bias.to(type).contiguous();
    bytes_ += static_cast<int64_t>(bias_->nbytes());
  }
}

at::Tensor OneDnnConv2d::Apply(const at::Tensor& map) const {
  static const auto op = Operator<at::Tensor(
      const at::Tensor&, const at::Tensor&, const OptionalTensor&, at::IntArrayRef, at::IntArrayRef,
      at::IntArrayRef, int64_t, std::string_view, Scalars, std::optional<std::string_view>)>(
      "mkldnn::_convolution_pointwise");
  return op.call(map, weight_, bias_, options_.padding, options_.stride, kDilation, options_.groups,
                 "none", Scalars(), "");
}

}  // namespace fovea::kernels
