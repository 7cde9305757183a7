#include "tests/server/compare/one_gpu.h"

#include <memory>

#include "tests/server/executor/fake_gpu.h"

namespace fovea {

Gpus OneFakeGpu(bool lost) {
  const auto state = std::make_shared<FakeGpuState>();
  state->lost = lost;
  return {std::make_shared<FakeGpu>(state)};
}

}  // namespace fovea
