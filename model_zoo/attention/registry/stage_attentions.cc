#include "model_zoo/attention/registry/stage_attentions.h"

#include <utility>

#include "model_zoo/attention/registry/attentions.h"

namespace fovea::models {

StageAttentions::StageAttentions(const ModelDescription& description,
                                 std::vector<PublishedStage> published)
    : backbone_(description.backbone),
      published_(std::move(published)),
      specs_(ParseStages(description.attention, published_, Attentions())) {}

std::string StageAttentions::Canonical() const {
  return CanonicalStages(specs_, published_, Attentions());
}

AttentionFactory StageAttentions::Stage(size_t stage, AttentionFactory::ModuleBuilder own) const {
  const std::string where = published_.size() == 1
                                ? backbone_
                                : "stage " + std::to_string(stage + 1) + " of " + backbone_;
  return AttentionFactory(Attentions(), specs_.at(stage), where, std::move(own),
                          published_.at(stage).own);
}

}  // namespace fovea::models
