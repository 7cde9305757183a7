// What fovea-server-with-fake-gpus has in place of the machine's GPUs: two that tests made of host
// memory. They do nothing while the file FAKE_GPUS_PAUSED is there, beside which FILE.seen then is,
// and are lost as soon as the file FAKE_GPUS_LOST is. Where FAKE_GPUS_TAKEN is set, another process
// has them to itself.
#include <c10/util/Exception.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "server/executor/gpus.h"
#include "tests/server/executor/fake_gpu.h"

namespace fovea {
namespace {

std::filesystem::path FileNamedBy(const char* variable) {
  const char* file = std::getenv(variable);
  return file == nullptr ? "" : file;
}

}  // namespace

absl::StatusOr<Gpus> FindGpus(int64_t max_bytes) {
  if (std::getenv("FAKE_GPUS_TAKEN") != nullptr) {
    return UsableGpus(2, [](int /*number*/) -> std::shared_ptr<const Gpu> {
      C10_THROW_ERROR(Error, "CUDA-capable device(s) is/are busy or unavailable");
    });
  }
  const auto state = std::make_shared<FakeGpuState>();
  std::thread([state, paused = FileNamedBy("FAKE_GPUS_PAUSED"),
               lost = FileNamedBy("FAKE_GPUS_LOST")] {
    while (!state->lost) {
      state->paused = std::filesystem::exists(paused);
      if (state->paused) std::ofstream(paused.string() + ".seen");
      state->lost = std::filesystem::exists(lost);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }).detach();
  return Gpus{std::make_shared<FakeGpu>(state, 0, max_bytes),
              std::make_shared<FakeGpu>(state, 1, max_bytes)};
}

}  // namespace fovea
