// Global self-attention: every token is a query, a key and a value.
//   Vaswani et al. 2017; names and order of timm's vision transformer: `qkv` in one projection,
//   `proj`.
#pragma once

#include <memory>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/factory.h"

namespace fovea::models {

std::shared_ptr<AttentionModule> MakeSelfAttention(const AttentionSpec& spec,
                                                   const ModuleSite& site,
                                                   const AttentionFactory& cores);

}  // namespace fovea::models
