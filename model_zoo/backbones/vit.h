#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// vit_{tiny,small,base}_patch16_224, deit_{tiny,small,base}[_distilled]_patch16_224,
// vit_{small,base}_patch16_224.dino, vit_demo_patch8_64, vit_small_32.
void RegisterVit(BackboneRegistry& registry);

}  // namespace fovea::models
