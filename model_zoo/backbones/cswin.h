#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// cswin_tiny_224, cswin_base_224.
void RegisterCswin(BackboneRegistry& registry);

}  // namespace fovea::models
