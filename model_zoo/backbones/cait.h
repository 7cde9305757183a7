#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// cait_s24_224, cait_small_32.
void RegisterCait(BackboneRegistry& registry);

}  // namespace fovea::models
