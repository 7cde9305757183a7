#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// visformer_tiny.
void RegisterVisformer(BackboneRegistry& registry);

}  // namespace fovea::models
