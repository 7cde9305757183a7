// Convolutional static-key attention on CUDA: one launch on the current stream, and the weights by
// tap from torch's allocator. shared/cuda_online.h has the algorithm, cuda_job.h the convolution.
#include "kernels/attention/conv_static_key_attention/cuda_job.h"
#include "kernels/attention/shared/cuda_online_launch.h"
#include "kernels/cuda/for_type.h"

namespace fovea::kernels {

void ConvStaticKeyAttentionCuda(const ConvStaticKeyAttentionInputs& given,
                                const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(given.query.device());
  ConvStaticKeyAttentionInputs in = given;
  if (in.cls_key) in.cls_key = in.cls_key->contiguous();
  const at::Tensor kernel = KernelByTap(in.weight);
  cuda::ForType(in.query.scalar_type(), [&](auto element) {
    cuda::ForWeights(in.activation, [&](auto* weights) {
      using T = decltype(element);
      using Weights = std::remove_pointer_t<decltype(weights)>;
      cuda::LaunchOnline<T>("conv_static_key_attention", MakeJob<T, Weights>(in, kernel, output));
    });
  });
}

}  // namespace fovea::kernels
