// What fovea-server-with-fake-gpus has in place of the machine's GPUs: two that tests made of host
// memory. They are lost as soon as the file FAKE_GPUS_LOST is there.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "server/executor/gpus.h"
#include "tests/server/executor/fake_gpu.h"

namespace fovea {

Gpus FindGpus(int64_t max_bytes) {
  const auto state = std::make_shared<FakeGpuState>();
  if (const char* file = std::getenv("FAKE_GPUS_LOST")) {
    std::thread([state, file = std::filesystem::path(file)] {
      while (!std::filesystem::exists(file)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      state->lost = true;
    }).detach();
  }
  return {std::make_shared<FakeGpu>(state, 0, max_bytes),
          std::make_shared<FakeGpu>(state, 1, max_bytes)};
}

}  // namespace fovea
