#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// cvt_13, cvt_13_32.
void RegisterCvt(BackboneRegistry& registry);

}  // namespace fovea::models
