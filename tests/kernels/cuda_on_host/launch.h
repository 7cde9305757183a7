// How tests run kernels: as host code (runtime.h), one block after the other.
// tests/kernels/ptx/overlay has a file of this name that runs what nvcc makes of them; the same
// tests are built with either.
#pragma once
#include "tests/kernels/cuda_on_host/runtime.h"
// Above: before the kernels' headers, which it makes host code of.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/kernels/cuda_on_host/kernel_name.h"

namespace fovea::kernels::cuda_on_host {

struct LaunchSize {
  int64_t blocks;
  int threads;                 // of a block
  int64_t shared_bytes = 0;    // that the launch asks for
  int64_t declared_bytes = 0;  // of arrays in shared memory that the kernel declares itself
};

// Memory that kernels touch, other than tensors.
template <class T>
using DeviceVector = std::vector<T>;

// Shared memory as the hardware gives it: aligned, of unknown content; ends with a guard.
class SharedMemory {
 public:
  explicit SharedMemory(int64_t bytes)
      : bytes_(static_cast<size_t>(bytes)), memory_(kAlignment + bytes_ + kGuard, kUntouched) {}

  unsigned char* data() {
    return memory_.data() + kAlignment - reinterpret_cast<uintptr_t>(memory_.data()) % kAlignment;
  }
  bool GuardIsUntouched() {
    return std::all_of(data() + bytes_, memory_.data() + memory_.size(),
                       [](unsigned char b) { return b == kUntouched; });
  }

 private:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kGuard = 4096;
  static constexpr unsigned char kUntouched = 0xFF;  // NaN in every type
  size_t bytes_;
  std::vector<unsigned char> memory_;
};

// Runs body(shared memory), which is what the kernel does, as every thread of every block. `kernel`
// and `arguments` are those of the kernel in nvcc's hands. A body takes `auto*`, so that it is only
// compiled where it is called.
template <class Body, class... Arguments>
void Launch(const std::string& kernel, const LaunchSize& size, const Body& body,
            const Arguments&...) {
  for (int64_t i = 0; i < size.blocks; ++i) {
    SharedMemory shared(size.shared_bytes + size.declared_bytes);
    Block::Run(static_cast<unsigned>(i), static_cast<unsigned>(size.threads),
               [&] { body(shared.data()); });
    ASSERT_TRUE(shared.GuardIsUntouched()) << kernel;
  }
}

}  // namespace fovea::kernels::cuda_on_host
