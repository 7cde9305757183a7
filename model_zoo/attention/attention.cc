#include "model_zoo/attention/attention.h"

#include <c10/util/Exception.h>

#include <utility>

#include "model_zoo/layers/linear.h"

namespace fovea::models {

at::Tensor AttentionModule::forward(at::Tensor tokens, const Grid& grid) const {
  return projection()->forward(Mix(std::move(tokens), /*norm=*/nullptr, grid));
}

at::Tensor AttentionModule::Mix(at::Tensor /*tokens*/, const LayerNorm* /*norm*/,
                                const Grid& /*grid*/) const {
  TORCH_INTERNAL_ASSERT(false, "only a module with a projection mixes apart from it");
}

}  // namespace fovea::models
