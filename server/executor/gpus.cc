#include "server/executor/gpus.h"

#include "absl/strings/str_cat.h"
#include "server/executor/gpu.h"

namespace fovea {

std::string TextOf(const Gpus& gpus) {
  std::string text;
  for (const auto& gpu : gpus) absl::StrAppend(&text, text.empty() ? "" : ", ", gpu->name());
  return text.empty() ? "no GPU" : text;
}

std::vector<GpuMemory> MemoryOf(const Gpus& gpus) {
  std::vector<GpuMemory> memory;
  for (const auto& gpu : gpus) {
    const auto [allocated, reserved] = gpu->HeldMemory();
    memory.push_back({.uuid = gpu->uuid(),
                      .allocated = allocated,
                      .reserved = reserved,
                      .set_aside = gpu->budget().held(),
                      .limit = gpu->budget().capacity()});
  }
  return memory;
}

}  // namespace fovea
