// Workspaces of threads, cut from one tensor.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::kernels::attend {

// How much one thread needs, part by part, each beginning on a cache line.
class ScratchLayout {
 public:
  // The offset of a part of `floats` floats.
  int64_t Take(int64_t floats) {
    const int64_t begin = floats_;
    floats_ += (floats + 15) / 16 * 16;
    return begin;
  }
  int64_t floats() const { return floats_; }

 private:
  int64_t floats_ = 0;
};

// Memory for `threads` workspaces, uninitialised. Allocated by the caller and not by the threads,
// so that whoever counts this thread's memory sees it.
at::Tensor AllocateScratch(const ScratchLayout& layout, int64_t threads);

}  // namespace fovea::kernels::attend
