// k-NN attention on CUDA, outermost: tensors into raw memory, one launch on the current stream.
// cuda_rows.h has the algorithm. Nothing here waits for the device or allocates.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <cstdint>

#include "kernels/attention/knn_attention/cuda_rows.h"
#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/cuda/for_type.h"

namespace fovea::kernels {
namespace {

template <class T>
__global__ void __launch_bounds__(knn::kThreads) KnnAttentionKernel(const knn::CudaJob<T> job) {
  extern __shared__ __align__(32) unsigned char shared[];
  knn::RowBlock<T>(job, shared).Run();
}

template <class T>
void Launch(const KnnAttentionInputs& in, const at::Tensor& output) {
  knn::CudaJob<T> job{};
  job.query = static_cast<const T*>(in.query.const_data_ptr());
  job.key = static_cast<const T*>(in.key.const_data_ptr());
  job.value = static_cast<const T*>(in.value.const_data_ptr());
  job.output = static_cast<T*>(output.mutable_data_ptr());
  const auto strides = [](const at::Tensor& t, int64_t& batch, int64_t& head, int64_t& token) {
    batch = t.stride(0);
    head = t.stride(1);
    token = t.stride(2);
  };
  strides(in.query, job.query_batch, job.query_head, job.query_token);
  strides(in.key, job.key_batch, job.key_head, job.key_token);
  strides(in.value, job.value_batch, job.value_head, job.value_token);
  strides(output, job.output_batch, job.output_head, job.output_token);
  if (in.bias) {
    job.bias = in.bias->const_data_ptr<float>();
    strides(*in.bias, job.bias_batch, job.bias_head, job.bias_query);
    job.bias_key = in.bias->stride(3);
  }
  job.heads = in.query.size(1);
  job.queries = in.query.size(2);
  job.keys = in.key.size(2);
  job.topk = in.topk;
  job.dim = static_cast<int>(in.query.size(3));
  job.padded_dim = (job.dim + cuda::kFragment - 1) / cuda::kFragment * cuda::kFragment;
  job.scale = static_cast<float>(in.scale);

  const int available =
      static_cast<int>(at::cuda::getCurrentDeviceProperties()->sharedMemPerBlockOptin);
  constexpr int64_t kMostResidentKeys = 1 << 14;  // far beyond any device; keeps the sizes in int
  job.resident = job.keys <= kMostResidentKeys &&
                 knn::LayoutOf<T>(job.padded_dim, job.keys, true).end <= available;
  const int bytes = knn::LayoutOf<T>(job.padded_dim, job.keys, job.resident).end;
  TORCH_CHECK(bytes <= available, "knn_attention: head_dim ", job.dim, " needs ", bytes,
              " bytes of shared memory, this GPU has ", available,
              "; FOVEA_FORCE_KERNEL=reference takes any head_dim");
  AT_CUDA_CHECK(cudaFuncSetAttribute(KnnAttentionKernel<T>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const int64_t blocks =
      in.query.size(0) * job.heads * ((job.queries + knn::kRows - 1) / knn::kRows);
  TORCH_CHECK(blocks <= INT32_MAX, "knn_attention: query has too many rows for one launch: shape ",
              in.query.sizes());
  KnnAttentionKernel<T>
      <<<static_cast<unsigned>(blocks), knn::kThreads, bytes, at::cuda::getCurrentCUDAStream()>>>(
          job);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

void KnnAttentionCuda(const KnnAttentionInputs& in, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(in.query.device());
  cuda::ForType(in.query.scalar_type(),
                [&](auto element) { Launch<decltype(element)>(in, output); });
}

}  // namespace fovea::kernels
