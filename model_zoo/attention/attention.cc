#include "model_zoo/attention/attention.h"

#include <c10/util/Exception.h>

#include <utility>

#include "model_zoo/attention/attention_time.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {

at::Tensor AttentionCore::Attend(const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value,
                                 const std::optional<at::Tensor>& bias) const {
  const AttentionRegion region;
  return DoAttend(query, key, value, bias);
}

at::Tensor AttentionCore::AttendWindows(const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value, const Windows& windows,
                                        const std::optional<at::Tensor>& bias) const {
  const AttentionRegion region;
  return DoAttendWindows(query, key, value, windows, bias);
}

at::Tensor AttentionModule::forward(at::Tensor tokens, const Grid& grid) const {
  return projection()->forward(Mix(std::move(tokens), /*norm=*/nullptr, grid));
}

at::Tensor AttentionModule::Mix(at::Tensor /*tokens*/, const LayerNorm* /*norm*/,
                                const Grid& /*grid*/) const {
  TORCH_INTERNAL_ASSERT(false, "only a module with a projection mixes apart from it");
}

}  // namespace fovea::models
