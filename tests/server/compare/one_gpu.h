// A GPU for tests that do not include LibTorch.
#pragma once

#include <functional>

#include "server/executor/gpus.h"

namespace fovea {

struct OneGpu {
  Gpus gpus;                   // one, made of host memory (tests/server/executor/fake_gpu.h)
  std::function<void()> lose;  // any thread
};
OneGpu MakeOneGpu();

}  // namespace fovea
