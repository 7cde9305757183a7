// Static-key attention on CUDA: one launch on the current stream. shared/cuda_online.h has the
// algorithm.
#include "kernels/attention/shared/cuda_online_launch.h"
#include "kernels/attention/static_key_attention/cuda_job.h"
#include "kernels/cuda/for_type.h"

namespace fovea::kernels {

void StaticKeyAttentionCuda(const StaticKeyAttentionInputs& in, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(in.query.device());
  cuda::ForType(in.query.scalar_type(), [&](auto element) {
    cuda::ForWeights(in.activation, [&](auto* weights) {
      using T = decltype(element);
      using Weights = std::remove_pointer_t<decltype(weights)>;
      cuda::LaunchOnline<T>("static_key_attention", MakeJob<T, Weights>(in, output));
    });
  });
}

}  // namespace fovea::kernels
