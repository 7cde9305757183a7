#include "server/executor/gpus.h"

#include <c10/util/Exception.h>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/log.h"
#include "server/executor/gpu.h"

namespace fovea {

absl::StatusOr<Gpus> UsableGpus(int shown,
                                absl::FunctionRef<std::shared_ptr<const Gpu>(int number)> open) {
  Gpus gpus;
  for (int number = 0; number < shown; ++number) {
    try {
      gpus.push_back(open(number));
    } catch (const c10::Error& error) {
      Log(LogLevel::kError,
          absl::StrCat("GPU ", number, " is left out: ", error.what_without_backtrace()));
    }
  }
  if (shown > 0 && gpus.empty()) {
    return Unavailable("device.unusable",
                       "no GPU that CUDA shows can be used; with CUDA_VISIBLE_DEVICES= models run "
                       "on the CPU");
  }
  return gpus;
}

std::string TextOf(const Gpus& gpus) {
  std::string text;
  for (const auto& gpu : gpus) absl::StrAppend(&text, text.empty() ? "" : ", ", gpu->name());
  return text.empty() ? "no GPU" : text;
}

std::vector<int> NumbersOf(const Gpus& gpus) {
  std::vector<int> numbers;
  for (const auto& gpu : gpus) numbers.push_back(gpu->number());
  return numbers;
}

std::vector<GpuMemory> MemoryOf(const Gpus& gpus) {
  std::vector<GpuMemory> memory;
  for (const auto& gpu : gpus) {
    const auto [allocated, reserved] = gpu->AllocatorMemory();
    memory.push_back({.uuid = gpu->uuid(),
                      .allocated = allocated,
                      .reserved = reserved,
                      .set_aside = gpu->budget().held(),
                      .limit = gpu->budget().capacity()});
  }
  return memory;
}

}  // namespace fovea
