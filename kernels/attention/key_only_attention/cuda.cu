// Key-only attention on CUDA, outermost: tensors into raw memory, launches on the current stream.
// cuda_tokens.h has the algorithm. Nothing here waits for the device.
#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <type_traits>

#include "kernels/attention/key_only_attention/cuda_tokens.h"
#include "kernels/attention/key_only_attention/implementations.h"
#include "kernels/attention/shared/cuda_tokens.h"
#include "kernels/cuda/for_type.h"

namespace fovea::kernels {
namespace {

using key_only::CudaContextJob;
using key_only::CudaProductJob;
using key_only::kThreads;

template <class T, int kVector>
__global__ void __launch_bounds__(kThreads) SumChunks(const CudaContextJob<T> job) {
  extern __shared__ __align__(16) float shared[];
  key_only::ChunkBlock<T, kVector>(job, shared).Run();
}

template <class T>
__global__ void __launch_bounds__(kThreads) MergeChunks(const CudaContextJob<T> job) {
  key_only::MergeBlock<T>(job);
}

template <class T, int kVector>
__global__ void __launch_bounds__(kThreads) Multiply(const CudaProductJob<T> job) {
  key_only::ProductBlock<T, kVector>(job);
}

// Calls run(std::integral_constant<int, kVector>): how many elements of T are moved at once.
template <class T, class Run>
void ForVector(bool vectors, const Run& run) {
  if (vectors) {
    run(std::integral_constant<int, cuda::kVectorCount<T>>{});
  } else {
    run(std::integral_constant<int, 1>{});
  }
}

unsigned GridOf(int64_t blocks, const at::Tensor& tensor) {
  TORCH_CHECK(blocks <= INT32_MAX, "key_only_attention: too many blocks for one launch: shape ",
              tensor.sizes());
  return static_cast<unsigned>(blocks);
}

template <class T>
void LaunchContext(const at::Tensor& key, const at::Tensor& saliency, float scale,
                   const at::Tensor& context) {
  CudaContextJob<T> job{};
  job.key = static_cast<const T*>(key.const_data_ptr());
  job.key_batch = key.stride(0);
  job.key_head = key.stride(1);
  job.key_token = key.stride(2);
  job.saliency = saliency.const_data_ptr<float>();
  job.heads = key.size(1);
  job.tokens = key.size(2);
  job.chunks = (job.tokens + key_only::kTokensOfBlock - 1) / key_only::kTokensOfBlock;
  job.dim = static_cast<int>(key.size(3));
  job.scale = scale;
  const at::Tensor partials =
      at::empty({key.size(0), job.chunks, job.heads, key.size(3) + 2}, context.options());
  job.partials = partials.mutable_data_ptr<float>();
  job.context = context.mutable_data_ptr<float>();

  const int64_t batch = key.size(0);
  const auto stream = at::cuda::getCurrentCUDAStream();
  ForVector<T>(cuda::AreVectorAligned({key, saliency}), [&](auto vector) {
    constexpr int kVector = decltype(vector)::value;
    const int64_t bytes = key_only::SharedFloats<kVector>(key.size(3)) * sizeof(float);
    constexpr int64_t kAvailable = 48 << 10;  // on every device, without asking
    TORCH_CHECK(bytes <= kAvailable, "key_only_attention: head_dim ", key.size(3), " needs ", bytes,
                " bytes of shared memory, there are ", kAvailable,
                "; FOVEA_FORCE_KERNEL=reference takes any head_dim");
    SumChunks<T, kVector>
        <<<GridOf(batch * job.chunks * job.heads, key), kThreads, bytes, stream>>>(job);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  MergeChunks<T><<<GridOf(batch * job.heads, key), kThreads, 0, stream>>>(job);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <class T>
void LaunchProduct(const at::Tensor& value, const at::Tensor& context, const at::Tensor& output) {
  CudaProductJob<T> job{};
  job.value = static_cast<const T*>(value.const_data_ptr());
  job.value_batch = value.stride(0);
  job.value_head = value.stride(1);
  job.value_token = value.stride(2);
  job.output = static_cast<T*>(output.mutable_data_ptr());
  job.output_batch = output.stride(0);
  job.output_head = output.stride(1);
  job.output_token = output.stride(2);
  job.context = context.const_data_ptr<float>();
  job.heads = value.size(1);
  job.tokens = value.size(2);
  job.rows = value.size(0) * job.heads * job.tokens;
  job.dim = static_cast<int>(value.size(3));
  const int64_t blocks = (job.rows + key_only::kRowsOfBlock - 1) / key_only::kRowsOfBlock;
  ForVector<T>(cuda::AreVectorAligned({value, output, context}), [&](auto vector) {
    Multiply<T, decltype(vector)::value>
        <<<GridOf(blocks, value), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(job);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

}  // namespace

at::Tensor KeyOnlyContextCuda(const at::Tensor& key, const at::Tensor& saliency, double scale) {
  const c10::cuda::CUDAGuard device(key.device());
  const at::Tensor gate = saliency.to(at::kFloat).contiguous();
  at::Tensor context =
      at::empty({key.size(0), key.size(1), key.size(3)}, key.options().dtype(at::kFloat));
  cuda::ForType(key.scalar_type(), [&](auto element) {
    LaunchContext<decltype(element)>(key, gate, static_cast<float>(scale), context);
  });
  return context;
}

void KeyOnlyProductCuda(const at::Tensor& context, const at::Tensor& value,
                        const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(value.device());
  cuda::ForType(value.scalar_type(),
                [&](auto element) { LaunchProduct<decltype(element)>(value, context, output); });
}

void KeyOnlyAttentionCuda(const KeyOnlyAttentionInputs& in, const at::Tensor& output) {
  KeyOnlyProductCuda(KeyOnlyContextCuda(in.key, in.saliency, in.scale), in.value, output);
}

}  // namespace fovea::kernels
