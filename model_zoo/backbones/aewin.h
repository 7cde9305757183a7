#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// aewin_tiny_224, aewin_base_224.
void RegisterAewin(BackboneRegistry& registry);

}  // namespace fovea::models
