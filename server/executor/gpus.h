// The GPUs of this machine.
#pragma once

#include <memory>
#include <vector>

namespace fovea {

class Gpu;  // gpu.h

// By their numbers.
using Gpus = std::vector<std::shared_ptr<const Gpu>>;

// All that CUDA shows (CUDA_VISIBLE_DEVICES). None in a build without CUDA (no_cuda_gpu.cc), and on
// a machine without a driver; the log says what was found.
Gpus FindGpus();

}  // namespace fovea
