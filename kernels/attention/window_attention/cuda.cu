// Window attention on CUDA: one launch on the current stream. shared/cuda_online.h has the
// algorithm.
#include "kernels/attention/shared/cuda_online_launch.h"
#include "kernels/attention/window_attention/cuda_job.h"
#include "kernels/cuda/for_type.h"

namespace fovea::kernels {

void WindowAttentionCuda(const WindowAttentionInputs& in, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(in.query.device());
  cuda::ForType(in.query.scalar_type(), [&](auto element) {
    using T = decltype(element);
    cuda::LaunchOnline<T>("window_attention", MakeJob<T>(in, output));
  });
}

}  // namespace fovea::kernels
