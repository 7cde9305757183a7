#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// so_vit_7.
void RegisterSoVit(BackboneRegistry& registry);

}  // namespace fovea::models
