#include "model_zoo/registry/heads.h"

#include "model_zoo/heads/register.h"

namespace fovea::models {

const std::vector<HeadEntry>& Heads() {
  static const std::vector<HeadEntry> heads = {
      {"classifier", "the backbone's own: a logit for each class", Task::kClassification, nullptr},
      RetinaNetEntry(),
      MaskRcnnEntry(),
      CascadeMaskRcnnEntry(),
      UperNetEntry(),
      SemanticFpnEntry(),
  };
  return heads;
}

}  // namespace fovea::models
