// Exact k-NN attention on CUDA: one launch on the current stream. shared/cuda_nearest.h has the
// algorithm.
#include "kernels/attention/knn_attention_exact/implementations.h"
#include "kernels/attention/shared/cuda_nearest_launch.h"
#include "kernels/cuda/for_type.h"

namespace fovea::kernels {

void KnnAttentionExactCuda(const KnnAttentionExactInputs& in, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(in.query.device());
  cuda::ForType(in.query.scalar_type(), [&](auto element) {
    using T = decltype(element);
    knn::LaunchNearest<T>("knn_attention_exact",
                          knn::MakeJob<T, knn::Near::kEuclidean>(in, output));
  });
}

}  // namespace fovea::kernels
