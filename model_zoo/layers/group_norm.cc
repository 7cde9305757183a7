#include "model_zoo/layers/group_norm.h"

#include <ATen/ATen.h>

namespace fovea::models {
namespace {

// Torch 2.11 has two kernels for maps whose channels are last. Where a group has fewer channels
// than this, that for maps of fewer pixels, and the gradients of both, take many times as long as
// those for channels first; otherwise they are the faster ones.
constexpr int64_t kFewChannels = 8, kFewPixels = 1024;

}  // namespace

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double epsilon)
    : groups_(groups),
      epsilon_(epsilon),
      weight_(AddParameter("weight", {channels})),
      bias_(AddParameter("bias", {channels})) {
  TORCH_INTERNAL_ASSERT(channels % groups == 0);
}

at::Tensor GroupNorm::forward(const at::Tensor& map) const {
  const bool few = weight_.size(0) / groups_ < kFewChannels;
  const bool first = few && (map.size(2) * map.size(3) < kFewPixels || map.requires_grad());
  return at::group_norm(first ? map.contiguous() : map, groups_, weight_, bias_, epsilon_);
}

}  // namespace fovea::models
