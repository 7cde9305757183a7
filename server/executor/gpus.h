// The GPUs of this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fovea {

class Gpu;  // gpu.h

// By their numbers.
using Gpus = std::vector<std::shared_ptr<const Gpu>>;

// All that CUDA shows (CUDA_VISIBLE_DEVICES). None in a build without CUDA (no_cuda_gpu.cc), and on
// a machine without a driver; one of which no memory can be had, as when another process has it to
// itself, is left out with a line in the log. Models may hold `max_bytes` of each together, and no
// more than is free now.
Gpus FindGpus(int64_t max_bytes);

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
