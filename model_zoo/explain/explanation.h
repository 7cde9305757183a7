// What a model's attention looks at in one image: maps, and two ways to follow them through the
// layers.
//   Rollout: Abnar and Zuidema, Quantifying Attention Flow in Transformers, ACL 2020.
//   Attribution: Chefer, Gur and Wolf, Transformer Interpretability Beyond Attention Visualization,
//   CVPR 2021 ("Transformer Attribution").
//   Gradient rollout: Chefer, Gur and Wolf, Generic Attention-Model Explainability for Interpreting
//   Bi-Modal and Encoder-Decoder Transformers, ICCV 2021, equations 5 and 6.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "model_zoo/backbones/backbone.h"
#include "model_zoo/measures/layer_measures.h"

namespace fovea::models {

struct ExplainOptions {
  bool maps = false;
  bool rollout = false;
  bool attribution = false;
  bool gradient_rollout = false;
  bool measures = false;
  // Whose weights are shown: the patch that holds this place of the input, (y, x) as shares of its
  // height and width in [0, 1). None: the first prefix token's, which is the class token; the mean
  // over all patches' where there are no prefix tokens.
  std::optional<std::array<double, 2>> place;
  std::optional<int64_t> target;  // a class; none: the most probable one
  // Of what the maps may hold at one time.
  int64_t max_bytes = std::numeric_limits<int64_t>::max();
  // Asked between the blocks of each way through the model, forwards and back; null: never. It may
  // take its time: nothing runs meanwhile.
  std::function<bool()> stop;
};

// What a query, or the target, gives to each patch.
struct PatchWeights {
  std::string layer;   // "blocks.3"; empty: of all layers together
  at::Tensor weights;  // [heads, height, width] in fp32; of all layers together [1, height, width]
};

struct Explanation {
  // Why there is none.
  enum class Refusal {
    kNone,
    kStopped,
    kTooLarge,  // the maps hold more than max_bytes
    kUnfit,     // what was asked for is not defined for this model
  };
  Refusal refusal = Refusal::kNone;
  std::string why;  // of the last two, a sentence for a caller

  std::vector<PatchWeights> maps;       // of each layer that has weights, in the order they run
  std::vector<LayerMeasures> measures;  // of each block
  std::optional<PatchWeights> rollout, attribution, gradient_rollout;
  std::optional<int64_t> target;  // of a classifier
  double probability = 0;         // of the target, in [0, 1]
};

// Runs `pixels`, one image, through `backbone`, which is trainable (LoadBackbone's) and set to
// eval(); its parameters no longer ask for gradients afterwards. Maps come from the references
// (kernels/attention/attention_maps.h) and are reduced as they come, but for gradients, which hold
// all of them.
Explanation Explain(const Backbone& backbone, const at::Tensor& pixels,
                    const ExplainOptions& options);

// One layer of rollout: what behind it comes from each token in front of the first one, where
// `behind` [N, N] says so of the layer before, the identity at the start. Half of a token passes by
// the attention: ((weights + 1) / 2) behind, for weights [heads, N, N] whose rows sum to one, mean
// over the heads.
at::Tensor RollOut(const at::Tensor& weights, const at::Tensor& behind);

// One layer of the two that follow gradients: behind + mean over heads of (gradient * relevance)+
// times behind. All [heads, N, N] but `behind` [N, N]. Of gradient rollout the relevance is the
// weights themselves.
at::Tensor FollowGradients(const at::Tensor& gradient, const at::Tensor& relevance,
                           const at::Tensor& behind);

}  // namespace fovea::models
