#include "model_zoo/layers/group_norm.h"

#include <ATen/ATen.h>

namespace fovea::models {
namespace {

constexpr int64_t kSmallMap = 1024;  // pixels

}  // namespace

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double epsilon)
    : groups_(groups),
      epsilon_(epsilon),
      weight_(AddParameter("weight", {channels})),
      bias_(AddParameter("bias", {channels})) {
  TORCH_INTERNAL_ASSERT(channels % groups == 0);
}

at::Tensor GroupNorm::forward(const at::Tensor& map) const {
  // Where channels are last, Torch 2.11 has another kernel, which takes 45 times as long for 16x16
  // pixels of 64 channels, and 7 times as long for the gradients of 32x32.
  const bool avoid_it = map.size(2) * map.size(3) < kSmallMap || map.requires_grad();
  return at::group_norm(avoid_it ? map.contiguous() : map, groups_, weight_, bias_, epsilon_);
}

}  // namespace fovea::models
