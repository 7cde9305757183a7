// The attention cores: what the registry lists, and the tests name.
#pragma once

#include <memory>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/attention_spec.h"

namespace fovea::models {

// Softmax attention, kernels/attention/dense_attention; torch's scaled_dot_product_attention where
// gradients are wanted. Options: temperature.
std::shared_ptr<const AttentionCore> MakeDenseCore(const AttentionSpec& spec, const CoreSite& site);

// k-NN attention, kernels/attention/knn_attention, or knn_attention_exact with the option exact.
// Options: k, exact, temperature. KVT (Wang et al., ECCV 2022), section 3.2.
std::shared_ptr<const AttentionCore> MakeKnnCore(const AttentionSpec& spec, const CoreSite& site);

}  // namespace fovea::models
