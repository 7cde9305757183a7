#include "kernels/onednn/private_operators.h"

#include <ATen/Context.h>

namespace fovea::kernels::onednn {

bool Supports(c10::ScalarType type) {
  if (!at::hasMKLDNN() || !at::globalContext().userEnabledMkldnn()) return false;
  static const auto bf16 = Operator<bool()>("mkldnn::_is_mkldnn_bf16_supported");
  return type == at::kFloat || (type == at::kBFloat16 && bf16.call());
}

int64_t BytesOf(const at::Tensor& packed) {
  static const auto bytes = Operator<int64_t(const at::Tensor&)>("mkldnn::_nbytes");
  return bytes.call(packed);
}

}  // namespace fovea::kernels::onednn
