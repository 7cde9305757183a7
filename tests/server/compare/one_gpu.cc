#include "tests/server/compare/one_gpu.h"

#include <memory>

#include "tests/server/executor/fake_gpu.h"

namespace fovea {

Gpus OneFakeGpu() { return {std::make_shared<FakeGpu>()}; }

}  // namespace fovea
