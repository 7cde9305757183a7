// The GPUs of this machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace fovea {

class Gpu;  // gpu.h

// By their numbers.
using Gpus = std::vector<std::shared_ptr<const Gpu>>;

// All that CUDA shows (CUDA_VISIBLE_DEVICES). None in a build without CUDA (no_cuda_gpu.cc), and on
// a machine without a driver.
Gpus FindGpus();

// "GPU 0 (NVIDIA H200), GPU 1 (NVIDIA H200)"; "no GPU".
std::string TextOf(const Gpus& gpus);

}  // namespace fovea
