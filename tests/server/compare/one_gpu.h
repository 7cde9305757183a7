// A GPU for tests that do not include LibTorch.
#pragma once

#include "server/executor/gpus.h"

namespace fovea {

// Made of host memory (tests/server/executor/fake_gpu.h).
Gpus OneFakeGpu();

}  // namespace fovea
