// What each file of this folder adds to the heads that a model description can name.
#pragma once

#include "model_zoo/heads/head.h"

namespace fovea::models {

HeadEntry CascadeMaskRcnnEntry();
HeadEntry MaskRcnnEntry();
HeadEntry RetinaNetEntry();
HeadEntry SemanticFpnEntry();
HeadEntry UperNetEntry();

}  // namespace fovea::models
