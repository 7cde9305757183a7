#include "kernels/attention/shared/cpu_scratch.h"

#include <ATen/Functions.h>

namespace fovea::kernels::attend {

at::Tensor AllocateScratch(const ScratchLayout& layout, int64_t threads) {
  return at::empty({threads, layout.floats()}, at::TensorOptions().dtype(at::kFloat));
}

}  // namespace fovea::kernels::attend
