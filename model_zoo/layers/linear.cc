#include "model_zoo/layers/linear.h"

#include <ATen/ATen.h>

namespace fovea::models {

Linear::Linear(int64_t in, int64_t out, bool bias) : weight_(AddParameter("weight", {out, in})) {
  if (bias) {
    bias_ = AddParameter("bias", {out});
  }
}

at::Tensor Linear::forward(const at::Tensor& input) const {
  return at::linear(input, weight_, bias_);
}

at::Tensor Linear::ForwardGelu(const at::Tensor& input) const { return at::gelu(forward(input)); }

at::Tensor Linear::ForwardAdd(const at::Tensor& input, const at::Tensor& residual) const {
  return residual + forward(input);
}

}  // namespace fovea::models
