// The attention of a block, whose map is recorded where somebody wants it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string>

#include "model_zoo/attention/attention.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/layers/layer_norm.h"
#include "model_zoo/layers/linear_chain.h"

namespace fovea::models {

// attention(tokens); its map is recorded under `name` where the context wants maps and the module
// has one. The output is its caller's to record: what arrives of it in the block differs. Tokens by
// value, so that a prepared pass gives them up as soon as they are projected.
at::Tensor AttendAndRecordMap(const AttentionModule& attention, at::Tensor tokens, const Grid& grid,
                              ForwardContext& context, const std::string& name);

// attended = residual_scale * tokens + attention(norm(tokens)), then the MLP's two links over it:
// the first with its norm, the last adds Residual::kInput, which is `attended`. Nothing is
// recorded.
at::Tensor AttendThenMlp(const LayerNorm& norm, const AttentionModule& attention,
                         const std::array<LinearLink, 2>& mlp, at::Tensor tokens, const Grid& grid,
                         const at::Tensor& residual_scale = {});

}  // namespace fovea::models
