#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// t2t_vit_t_19.
void RegisterT2t(BackboneRegistry& registry);

}  // namespace fovea::models
