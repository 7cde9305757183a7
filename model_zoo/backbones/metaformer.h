#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// caformer_s18, caformer_b36, skaformer_s18, skaformer_b36, cskaformer_s18, cskaformer_b36.
void RegisterMetaFormer(BackboneRegistry& registry);

}  // namespace fovea::models
