#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model_zoo/attention/factory.h"
#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/backbones/backbone_registry.h"

namespace fovea::models {

struct SwinConfig {
  int64_t image_side = 224;
  int64_t window = 7;
  int64_t channels = 0;  // of the first stage, doubled by each next one
  std::vector<int64_t> depths;
  std::vector<int64_t> heads;
  int64_t num_classes = 1000;
  // Every stage's own module: its name, and what builds it.
  std::string attention = "shifted_window";
  AttentionFactory::ModuleBuilder own = MakeShiftedWindow;
};

SwinConfig Shrunk(SwinConfig config);

// The entry of a variant: also for backbones that differ from Swin in nothing but numbers and the
// attention.
BackboneEntry SwinVariant(std::string name, std::string summary, const SwinConfig& config);

}  // namespace fovea::models
