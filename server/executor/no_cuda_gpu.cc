// In place of cuda_gpu.cc where no CUDA toolkit was found.
#include "server/executor/gpus.h"

namespace fovea {

absl::StatusOr<Gpus> FindGpus(int64_t) { return Gpus(); }

}  // namespace fovea
