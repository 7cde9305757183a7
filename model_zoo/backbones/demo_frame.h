#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// demo_frame_64: one small frame in which the families of attention are trained side by side.
void RegisterDemoFrame(BackboneRegistry& registry);

}  // namespace fovea::models
