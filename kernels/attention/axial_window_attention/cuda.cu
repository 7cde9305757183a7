// Axially expanded window attention on CUDA: one launch on the current stream. shared/cuda_online.h
// has the algorithm.
#include "kernels/attention/axial_window_attention/cuda_job.h"
#include "kernels/attention/shared/cuda_online_launch.h"
#include "kernels/cuda/for_type.h"

namespace fovea::kernels {

void AxialWindowAttentionCuda(const AxialWindowAttentionInputs& given, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(given.query.device());
  AxialWindowAttentionInputs in = given;
  if (in.pad_key) in.pad_key = in.pad_key->contiguous();
  if (in.pad_value) in.pad_value = in.pad_value->contiguous();
  cuda::ForType(in.query.scalar_type(), [&](auto element) {
    using T = decltype(element);
    cuda::LaunchOnline<T>("axial_window_attention", MakeJob<T>(in, output));
  });
}

}  // namespace fovea::kernels
