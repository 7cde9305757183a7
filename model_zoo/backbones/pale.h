#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// pale_tiny_224, pale_base_224.
void RegisterPale(BackboneRegistry& registry);

}  // namespace fovea::models
