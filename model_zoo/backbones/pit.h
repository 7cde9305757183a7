#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// pit_b_224.
void RegisterPit(BackboneRegistry& registry);

}  // namespace fovea::models
