// Every backbone that a model description can name, in one explicit list. Includes neither torch
// nor protobuf.
#pragma once

#include <string_view>
#include <vector>

#include "model_zoo/backbones/backbone_registry.h"

namespace fovea::models {

const std::vector<BackboneEntry>& Backbones();

// Null where the name is not listed.
const BackboneEntry* FindBackbone(std::string_view name);

}  // namespace fovea::models
