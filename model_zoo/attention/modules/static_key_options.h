// The options of the two modules with static keys, `ska` (static_key.cc) and `cska`
// (conv_static_key.cc), and the keys of another input size. Internal to modules/.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/attention_spec.h"

namespace fovea::models {

// The options of an attention with static keys, as its operator takes them.
struct StaticKeyOptions {
  // Throws c10::ValueError where the channels do not divide by the heads.
  StaticKeyOptions(const AttentionSpec& spec, const ModuleSite& site);

  int64_t heads;
  std::string activation;
  std::optional<double> scale;
  // StarReLU's: MetaFormer Baselines for Vision (Yu et al., 2022), equation 5, for normal inputs.
  double activation_scale = 1;
  double activation_bias = 0;
  bool interpolate;
};

// Static keys `stored` [heads, tokens, numbers] for the tokens of `grid`: themselves where they are
// of its map; else, with `interpolate`, resized as ResizePositionEmbedding does; else throws
// c10::ValueError, since a static key fixes the number of tokens.
at::Tensor ResizedKeys(const at::Tensor& stored, const Grid& grid, bool interpolate);

}  // namespace fovea::models
