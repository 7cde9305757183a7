#include "model_zoo/layers/group_norm.h"

#include <ATen/ATen.h>

namespace fovea::models {

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double epsilon)
    : groups_(groups),
      epsilon_(epsilon),
      weight_(AddParameter("weight", {channels})),
      bias_(AddParameter("bias", {channels})) {
  TORCH_INTERNAL_ASSERT(channels % groups == 0);
}

at::Tensor GroupNorm::forward(const at::Tensor& map) const {
  return at::group_norm(map, groups_, weight_, bias_, epsilon_);
}

}  // namespace fovea::models
