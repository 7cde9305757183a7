#include "model_zoo/backbones/backbone.h"

#include <ATen/ATen.h>

#include "model_zoo/registry.h"
#include "model_zoo/weights/backbone_weights.h"

namespace fovea::models {

std::shared_ptr<Backbone> LoadBackbone(const ModelDescription& description) {
  const BackboneEntry* entry = FindBackbone(description.backbone);
  TORCH_CHECK_VALUE(entry != nullptr, "there is no backbone '", description.backbone, "'");
  TORCH_CHECK_VALUE(description.task == Task::kClassification,
                    "only classification is available yet, not detection or segmentation");
  std::shared_ptr<Backbone> backbone = entry->make(description);
  if (description.random_weights_seed) {
    const at::NoGradGuard no_grad;
    backbone->Initialise(*description.random_weights_seed);
  } else if (!backbone->parameters().empty()) {
    TORCH_CHECK_VALUE(!description.weights.empty(),
                      "the model has neither weights nor a seed for random ones");
    LoadWeights(SafetensorsFile(description.weights), *backbone);
  }
  return backbone;
}

}  // namespace fovea::models
