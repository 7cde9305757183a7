// How tests run kernels: what nvcc makes of them, on the interpreter. Stands in for
// tests/kernels/cuda_on_host/launch.h, whose declarations these are.
#pragma once
#include "tests/kernels/cuda_on_host/runtime.h"
// Above: before the kernels' headers, which are compiled here but not run.
#include <cstdint>
#include <string>

#include "tests/kernels/cuda_on_host/kernel_name.h"
#include "tests/kernels/ptx/device_memory.h"
#include "tests/kernels/ptx/shipped_kernels.h"

namespace fovea::kernels::cuda_on_host {

struct LaunchSize {
  int64_t blocks;
  int threads;
  int64_t shared_bytes = 0;
  int64_t declared_bytes = 0;
};

template <class T>
using DeviceVector = ptx::DeviceVector<T>;

template <class Body, class... Arguments>
void Launch(const std::string& kernel, const LaunchSize& size, const Body&,
            const Arguments&... arguments) {
  ptx::LaunchShipped(kernel, {size.blocks, static_cast<unsigned>(size.threads), size.shared_bytes},
                     {ptx::ArgumentOf(arguments)...});
}

}  // namespace fovea::kernels::cuda_on_host
