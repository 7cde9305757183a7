// The residual block that most vision transformers are made of, around whatever attention it is
// given, and a row of them.
//   x + attn(norm1(x)), then x + mlp(norm2(x)): Dosovitskiy et al. 2021, equations 2 and 3. timm's
//   names: `norm1`, `attn`, `norm2`, `mlp.fc1`, `mlp.fc2`.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model_zoo/attention/attention.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/layers/layer.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/mlp.h"

namespace fovea::models {

struct TransformerBlockOptions {
  int64_t channels = 0;
  int64_t mlp_hidden = 0;
  double norm_epsilon = 1e-6;
};

class TransformerBlock final : public Layer {
 public:
  TransformerBlock(const TransformerBlockOptions& options,
                   std::shared_ptr<AttentionModule> attention);

  // tokens [B, grid.tokens(), channels] -> the same shape. `name` is the block's own, for what it
  // records: the output of each branch, the block's, and the attention's map.
  at::Tensor forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                     const std::string& name) const;

 private:
  const std::shared_ptr<LayerNorm> norm1_;
  const std::shared_ptr<AttentionModule> attn_;
  const std::shared_ptr<LayerNorm> norm2_;
  const std::shared_ptr<Mlp> mlp_;
};

// The blocks of a stage, under their numbers: "0", "1", ...
class TransformerBlocks final : public Layer {
 public:
  using MakeAttention = std::function<std::shared_ptr<AttentionModule>(int64_t block)>;
  TransformerBlocks(int64_t depth, const TransformerBlockOptions& options,
                    const MakeAttention& attention);

  // `name` is the row's own. Undefined when context.ShouldStop() said so between two blocks.
  at::Tensor forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                     const std::string& name) const;

 private:
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
};

}  // namespace fovea::models
