// Dense attention's CUDA kernel: one launch on the current stream. shared/cuda_online.h has the
// algorithm.
#include "kernels/attention/dense_attention/cuda_job.h"
#include "kernels/attention/shared/cuda_online_launch.h"
#include "kernels/cuda/for_type.h"

namespace fovea::kernels {

void DenseAttentionKernel(const DenseAttentionInputs& in, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(in.query.device());
  cuda::ForType(in.query.scalar_type(), [&](auto element) {
    using T = decltype(element);
    cuda::LaunchOnline<T>("dense_attention", MakeJob<T>(in, output));
  });
}

}  // namespace fovea::kernels
