// The GPUs of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace fovea {

class Gpu;  // gpu.h

// By ascending numbers, of which some may be missing (FindGpus).
using Gpus = std::vector<std::shared_ptr<const Gpu>>;

// All that CUDA shows (CUDA_VISIBLE_DEVICES), as UsableGpus() says. None in a build without CUDA
// (no_cuda_gpu.cc), on a machine without a driver, and where CUDA cannot count them, of which
// LibTorch logs a warning. Models may hold `max_bytes` of each together, and no more than is free
// now.
absl::StatusOr<Gpus> FindGpus(int64_t max_bytes);

// open(number) of all numbers below `shown`. One for which it throws a c10::Error, as where another
// process has that GPU to itself, is left out with a line in the log. UNAVAILABLE
// (device.unusable) where that leaves none of those that are shown: what was to run on GPUs would
// run on the CPU for as long as this process lives, with no more than that line.
absl::StatusOr<Gpus> UsableGpus(int shown,
                                absl::FunctionRef<std::shared_ptr<const Gpu>(int number)> open);

std::vector<int> NumbersOf(const Gpus& gpus);

// "GPU 0 (NVIDIA H200), GPU 1 (NVIDIA H200)"; "no GPU".
std::string TextOf(const Gpus& gpus);

// What this process has of a GPU's memory, in bytes.
struct GpuMemory {
  std::string uuid;       // "GPU-8674351b-...", as NVML has it
  int64_t allocated = 0;  // by tensors
  int64_t reserved = 0;   // by LibTorch's allocator, for these and those to come
  int64_t set_aside = 0;  // for the models that are loaded, whether they run or not
  int64_t limit = 0;      // of what may be set aside
};
std::vector<GpuMemory> MemoryOf(const Gpus& gpus);

}  // namespace fovea
