#include "kernels/attention/shared/cpu_scratch.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

namespace fovea::kernels::attend {

int64_t ThreadCount() {
  at::internal::lazy_init_num_threads();
  return at::get_num_threads();
}

at::Tensor AllocateScratch(const ScratchLayout& layout, int64_t threads) {
  return at::empty({threads, layout.floats()}, at::TensorOptions().dtype(at::kFloat));
}

}  // namespace fovea::kernels::attend
