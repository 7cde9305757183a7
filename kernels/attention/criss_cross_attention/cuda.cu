// Criss-cross attention on CUDA: two launches on the current stream, and memory between them from
// torch's allocator. shared/cuda_online.h has the algorithm, cuda_job.h how two make one.
#include "kernels/attention/criss_cross_attention/cuda_job.h"
#include "kernels/attention/shared/cuda_online_launch.h"
#include "kernels/cuda/for_type.h"

namespace fovea::kernels {

void CrissCrossAttentionCuda(const CrissCrossAttentionInputs& in, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(in.query.device());
  const at::Tensor saved = EmptySavedStates(in.query);
  cuda::ForType(in.query.scalar_type(), [&](auto element) {
    using T = decltype(element);
    constexpr std::string_view kOp = "criss_cross_attention";
    cuda::LaunchOnline<T>(kOp, MakeJob<T, Lines::kColumns>(in, saved, output));
    cuda::LaunchOnline<T>(kOp, MakeJob<T, Lines::kRows>(in, saved, output));
  });
}

}  // namespace fovea::kernels
