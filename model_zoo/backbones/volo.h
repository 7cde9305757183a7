#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// volo_d1_384, volo_d3_448.
void RegisterVolo(BackboneRegistry& registry);

}  // namespace fovea::models
