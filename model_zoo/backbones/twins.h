#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// twins_svt_base.
void RegisterTwins(BackboneRegistry& registry);

}  // namespace fovea::models
