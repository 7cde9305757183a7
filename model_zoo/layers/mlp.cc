#include "model_zoo/layers/mlp.h"

namespace fovea::models {

Mlp::Mlp(int64_t channels, int64_t hidden)
    : fc1_(Add<Linear>("fc1", channels, hidden)), fc2_(Add<Linear>("fc2", hidden, channels)) {}

at::Tensor Mlp::forward(at::Tensor input) const {
  const at::Tensor hidden = fc1_->ForwardGelu(input);
  input.reset();
  return fc2_->forward(hidden);
}

at::Tensor Mlp::ForwardAdd(at::Tensor input, const at::Tensor& residual) const {
  const at::Tensor hidden = fc1_->ForwardGelu(input);
  input.reset();
  return fc2_->ForwardAdd(hidden, residual);
}

}  // namespace fovea::models
