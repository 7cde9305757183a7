#pragma once

#include "model_zoo/registry.h"

namespace fovea::models {

// identity: for measuring what the server adds to a model.
void RegisterIdentity(BackboneRegistry& registry);

}  // namespace fovea::models
