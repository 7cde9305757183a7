// A GPU for tests that do not include LibTorch.
#pragma once

#include "server/executor/gpus.h"

namespace fovea {

// Made of host memory (tests/server/executor/fake_gpu.h), and lost or not.
Gpus OneFakeGpu(bool lost = false);

}  // namespace fovea
