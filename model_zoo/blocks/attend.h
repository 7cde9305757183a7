// The attention of a block, whose map is recorded where somebody wants it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "model_zoo/attention/attention.h"
#include "model_zoo/forward_context.h"

namespace fovea::models {

// attention(tokens); its map is recorded under `name` where the context wants maps and the module
// has one. The output is its caller's to record: what arrives of it in the block differs. Tokens by
// value, so that a prepared pass gives them up as soon as they are projected.
at::Tensor AttendAndRecordMap(const AttentionModule& attention, at::Tensor tokens, const Grid& grid,
                              ForwardContext& context, const std::string& name);

}  // namespace fovea::models
