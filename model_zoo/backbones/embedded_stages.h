// Backbones whose stages each embed the map before them, the first one the image, and then run
// their blocks: parameters `stages.0.`, `stages.1.`, ...
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model_zoo/backbones/staged_backbone.h"
#include "model_zoo/layers/layer_list.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {

// A Stage has grid(), Embed(map) -> tokens, and RunBlocks(tokens, context, its name).
template <typename Stage>
class EmbeddedStages : public StagedBackbone {
 protected:
  EmbeddedStages(ModelInfo info, const ModelDescription& description,
                 std::vector<PublishedStage> published)
      : StagedBackbone(std::move(info), description, std::move(published)),
        stages_(Add<LayerList<Stage>>("stages")) {}

  // The next stage, made of these arguments; its grid.
  template <typename... Args>
  const Grid& AddStage(Args&&... args) {
    const Grid& grid = stages_->Emplace(std::forward<Args>(args)...).grid();
    AddGrid(grid);
    return grid;
  }

 private:
  at::Tensor RunStem(const at::Tensor& pixels) const final { return (*stages_)[0].Embed(pixels); }

  at::Tensor RunStage(size_t stage, at::Tensor tokens, const Grid& before,
                      ForwardContext& context) const final {
    const Stage& run = (*stages_)[stage];
    if (stage > 0) tokens = run.Embed(TokensToMap(tokens, before.height, before.width));
    return run.RunBlocks(std::move(tokens), context, "stages." + std::to_string(stage));
  }

  const std::shared_ptr<LayerList<Stage>> stages_;
};

}  // namespace fovea::models
