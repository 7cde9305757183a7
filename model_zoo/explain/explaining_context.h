// Listens to the pass that is explained. Internal to explain/.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "model_zoo/explain/explanation.h"
#include "model_zoo/explain/relevance.h"
#include "model_zoo/forward_context.h"
#include "model_zoo/layers/grid.h"
#include "model_zoo/measures/layer_measures.h"

namespace fovea::models {

// For one pass over one image. Maps are reduced to what was asked for when they come.
class ExplainingContext final : public ForwardContext {
 public:
  explicit ExplainingContext(const ExplainOptions& options) : options_(options) {}

  bool ShouldStop() override;
  bool Recording() const override { return true; }
  bool WantsMaps() const override { return true; }
  bool WantsMap(std::string_view layer, int64_t heads, const Grid& grid) override;
  bool DifferentiatesMaps() const override { return Differentiates(); }
  void Record(std::string_view layer, std::string_view name, const at::Tensor& tensor) override;
  void RecordMap(std::string_view layer, const at::Tensor& weights, const Grid& grid) override;

  bool Differentiates() const { return options_.attribution || options_.gradient_rollout; }
  Explanation::Refusal refusal() const { return refusal_; }
  const std::string& why() const { return why_; }

  // Why there is no way through all layers from token to token; empty: there is one, of `grid()`.
  const std::string& no_chain() const { return no_chain_; }
  const Grid& grid() const { return grid_; }
  // Why its weights are no shares of a whole, as rollout needs them; empty: they are.
  const std::string& no_shares() const { return no_shares_; }

  std::vector<PatchWeights> maps;
  at::Tensor rolled_out;          // [N, N], where it was asked for
  std::vector<BlockPass> blocks;  // where gradients were asked for
  const std::vector<LayerMeasures>& measures() const { return measuring_.layers(); }

 private:
  void Refuse(Explanation::Refusal refusal, std::string why);
  void Chain(const std::string& layer, const at::Tensor& weights, const Grid& grid);

  const ExplainOptions& options_;
  MeasuringContext measuring_;
  Explanation::Refusal refusal_ = Explanation::Refusal::kNone;
  std::string why_, no_chain_, no_shares_;
  Grid grid_;
  int64_t held_bytes_ = 0;
  BlockPass current_;         // until its block's output comes
  bool current_map_ = false;  // its map has come
  bool any_map_ = false;
};

// The row of `weights` [heads, N, N] that ExplainOptions::place names, over the patches:
// [heads, height, width].
at::Tensor QueryRow(const at::Tensor& weights, const Grid& grid, const ExplainOptions& options);

}  // namespace fovea::models
