#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// tnt_s_patch16_224.
void RegisterTnt(BackboneRegistry& registry);

}  // namespace fovea::models
