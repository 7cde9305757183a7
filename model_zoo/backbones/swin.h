#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// swin_tiny_patch4_window7_224, swin_base_patch4_window7_224, swin_tiny_32.
void RegisterSwin(BackboneRegistry& registry);

}  // namespace fovea::models
