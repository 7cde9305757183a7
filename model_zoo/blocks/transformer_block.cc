#include "model_zoo/blocks/transformer_block.h"

#include <ATen/ATen.h>

#include <utility>

#include "model_zoo/blocks/attend.h"
#include "model_zoo/blocks/run_blocks.h"

namespace fovea::models {

TransformerBlock::TransformerBlock(const TransformerBlockOptions& options,
                                   std::shared_ptr<AttentionModule> attention)
    : norm1_(Add<LayerNorm>("norm1", options.channels, options.norm_epsilon)),
      attn_(register_module("attn", std::move(attention))),
      norm2_(Add<LayerNorm>("norm2", options.channels, options.norm_epsilon)),
      mlp_(Add<Mlp>("mlp", options.channels, options.mlp_hidden)) {}

at::Tensor TransformerBlock::forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                                     const std::string& name) const {
  if (!context.Recording()) {
    return AttendThenMlp(*norm1_, *attn_, mlp_->Links(*norm2_), std::move(tokens), grid);
  }
  const at::Tensor attention =
      AttendAndRecordMap(*attn_, norm1_->forward(tokens), grid, context, name + ".attn");
  context.Record(name + ".attn", "output", attention);
  const at::Tensor attended = tokens + attention;
  const at::Tensor mlp = mlp_->forward(norm2_->forward(attended));
  context.Record(name + ".mlp", "output", mlp);
  at::Tensor output = attended + mlp;
  context.Record(name, "output", output);
  return output;
}

TransformerBlocks::TransformerBlocks(int64_t depth, const TransformerBlockOptions& options,
                                     const MakeAttention& attention) {
  for (int64_t i = 0; i < depth; ++i) {
    blocks_.push_back(Add<TransformerBlock>(std::to_string(i), options, attention(i)));
  }
}

at::Tensor TransformerBlocks::forward(at::Tensor tokens, const Grid& grid, ForwardContext& context,
                                      const std::string& name) const {
  return RunBlocks(blocks_, std::move(tokens), grid, context, name);
}

}  // namespace fovea::models
