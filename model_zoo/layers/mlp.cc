#include "model_zoo/layers/mlp.h"

namespace fovea::models {

Mlp::Mlp(int64_t channels, int64_t hidden)
    : fc1_(Add<Linear>("fc1", channels, hidden)), fc2_(Add<Linear>("fc2", hidden, channels)) {}

at::Tensor Mlp::forward(const at::Tensor& input) const {
  return fc2_->forward(fc1_->ForwardGelu(input));
}

at::Tensor Mlp::ForwardAdd(const at::Tensor& input, const at::Tensor& residual) const {
  return fc2_->ForwardAdd(fc1_->ForwardGelu(input), residual);
}

}  // namespace fovea::models
