#include "model_zoo/attention/modules/static_key_options.h"

#include <c10/util/Exception.h>

#include <array>

#include "model_zoo/layers/position_embedding.h"

namespace fovea::models {

StaticKeyOptions::StaticKeyOptions(const AttentionSpec& spec, const ModuleSite& site)
    : heads(spec.heads.value_or(site.heads)),
      activation(spec.activation.value_or("softmax")),
      scale(spec.scale),
      interpolate(spec.interpolate) {
  TORCH_CHECK_VALUE(site.channels % heads == 0, site.channels, " channels do not divide by ", heads,
                    " heads");
  if (activation == "star_relu") {
    activation_scale = 0.8944;
    activation_bias = -0.4472;
  }
}

at::Tensor ResizedKeys(const at::Tensor& stored, const Grid& grid, bool interpolate) {
  const std::array<int64_t, 2> map = {grid.height, grid.width};
  const int64_t tokens = stored.size(1);
  if (!OfAnotherMap(tokens - grid.prefix_tokens, map)) return stored;
  TORCH_CHECK_VALUE(interpolate, "a static key was trained for ", tokens,
                    " tokens, this input size has ", grid.tokens(), " on a map of ", map[0], "x",
                    map[1], ": ask for another size with the option 'interpolate'");
  return ResizePositionEmbedding(stored, grid.prefix_tokens, map);
}

}  // namespace fovea::models
