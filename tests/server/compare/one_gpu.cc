#include "tests/server/compare/one_gpu.h"

#include <memory>

#include "tests/server/executor/fake_gpu.h"

namespace fovea {

OneGpu MakeOneGpu() {
  const auto state = std::make_shared<FakeGpuState>();
  return {.gpus = {std::make_shared<FakeGpu>(state)}, .lose = [state] { state->lost = true; }};
}

}  // namespace fovea
