// Exact k-NN attention on CUDA, outermost: tensors into raw memory, one launch on the current
// stream. shared/cuda_nearest_rows.h has the algorithm. Nothing here waits for the device or
// allocates.
#include "kernels/attention/knn_attention_exact/implementations.h"
#include "kernels/attention/shared/cuda_launch.h"
#include "kernels/attention/shared/cuda_nearest_rows.h"
#include "kernels/cuda/for_type.h"

namespace fovea::kernels {
namespace {

constexpr knn::Near kNear = knn::Near::kEuclidean;

template <class T>
__global__ void __launch_bounds__(knn::kThreads)
    KnnAttentionExactKernel(const knn::CudaJob<T> job) {
  extern __shared__ __align__(32) unsigned char shared[];
  knn::RowBlock<T, kNear>(job, shared).Run();
}

template <class T>
void Launch(const KnnAttentionExactInputs& in, const at::Tensor& output) {
  const knn::CudaJob<T> job = knn::MakeJob<T, kNear>(in, output, cuda::SharedMemoryPerBlock());
  cuda::LaunchBlocks<knn::CudaJob<T>>(
      "knn_attention_exact", KnnAttentionExactKernel<T>, job, job.Blocks(), knn::kThreads,
      knn::LayoutOf<T, kNear>(job.padded_dim, job.keys, job.resident).end, job.dim);
}

}  // namespace

void KnnAttentionExactCuda(const KnnAttentionExactInputs& in, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(in.query.device());
  cuda::ForType(in.query.scalar_type(),
                [&](auto element) { Launch<decltype(element)>(in, output); });
}

}  // namespace fovea::kernels
