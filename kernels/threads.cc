#include "kernels/threads.h"

#include <ATen/Parallel.h>

namespace fovea::kernels {

int64_t ThreadCount() {
  at::internal::lazy_init_num_threads();
  return at::get_num_threads();
}

}  // namespace fovea::kernels
