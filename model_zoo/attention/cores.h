// The attention cores: what the registry lists, and the tests name.
#pragma once

#include <memory>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/attention_spec.h"

namespace fovea::models {

// Softmax attention: torch's scaled_dot_product_attention, or Fovea's kernel where that is faster.
// Options: temperature.
std::shared_ptr<const AttentionCore> MakeDenseCore(const AttentionSpec& spec, const CoreSite& site);

// k-NN attention, kernels/attention/knn_attention. Options: k, temperature.
// KVT (Wang et al., ECCV 2022), equation 3.
std::shared_ptr<const AttentionCore> MakeKnnCore(const AttentionSpec& spec, const CoreSite& site);

}  // namespace fovea::models
