// RP-CPE on CUDA, outermost: tensors into raw memory, one launch on the current stream, after
// ATen's that merge branches where there are several. cuda_convolve.h has the algorithm. Nothing
// here waits for the device.
#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <cstdint>

#include "kernels/cuda/for_type.h"
#include "kernels/vision/rp_cpe/cuda_convolve.h"
#include "kernels/vision/rp_cpe/implementations.h"

namespace fovea::kernels {
namespace {

using rp_cpe::CudaJob;
using rp_cpe::kThreads;

template <int kChannels, class T>
__global__ void __launch_bounds__(kThreads) StripKernel(const CudaJob<T> job, int64_t strips) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index < strips) rp_cpe::ConvolveStrip<kChannels>(job, index);
}

template <class T>
__global__ void __launch_bounds__(kThreads) OutputKernel(const CudaJob<T> job, int64_t outputs) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index < outputs) rp_cpe::ConvolveOutput(job, index);
}

unsigned BlocksOf(int64_t threads, const at::Tensor& x) {
  const int64_t blocks = (threads + kThreads - 1) / kThreads;
  TORCH_CHECK(blocks <= INT32_MAX, "rp_cpe: x is too large for one launch: shape ", x.sizes());
  return static_cast<unsigned>(blocks);
}

template <class T>
rp_cpe::CudaMap<T> MapOf(T* data, const at::Tensor& t) {
  return {data, t.stride(0), t.stride(1), t.stride(2), t.stride(3)};
}

// Whether `channels` at a time can be loaded from or stored to `t`.
bool InPacks(const at::Tensor& t, int64_t channels) {
  const auto whole = [&](int64_t n) { return n % channels == 0; };
  return whole(t.size(1)) && whole(t.stride(0)) && whole(t.stride(2)) && whole(t.stride(3)) &&
         whole(reinterpret_cast<intptr_t>(t.const_data_ptr()) / t.element_size());
}

// Of weights or biases, in fp32. One branch, as prepared models have it (merge.h), is read where it
// lies.
at::Tensor Merged(const at::Tensor& branches) {
  if (branches.size(0) == 1 && branches.scalar_type() == at::kFloat) return branches.contiguous();
  return branches.sum(0, /*keepdim=*/true, at::kFloat);
}

template <class T>
void Launch(const RpCpeInputs& in, const at::Tensor& output) {
  const at::Tensor weights = Merged(in.weights);
  const at::Tensor biases = Merged(in.biases);
  CudaJob<T> job{};
  job.x = MapOf(static_cast<const T*>(in.x.const_data_ptr()), in.x);
  job.y = MapOf(static_cast<T*>(output.mutable_data_ptr()), output);
  job.weights = weights.const_data_ptr<float>();
  job.biases = biases.const_data_ptr<float>();
  job.images = in.x.size(0);
  job.channels = in.x.size(1);
  job.height = in.x.size(2);
  job.width = in.x.size(3);
  const auto stream = at::cuda::getCurrentCUDAStream();
  if (in.x.stride(1) == 1 && output.stride(1) == 1) {
    constexpr int kChannels = 4;
    const int64_t strips = job.images * job.height *
                           ((job.width + rp_cpe::kStrip - 1) / rp_cpe::kStrip) * job.channels;
    const bool packed_weights = reinterpret_cast<intptr_t>(job.weights) % 16 == 0;
    if (packed_weights && InPacks(in.x, kChannels) && InPacks(output, kChannels)) {
      StripKernel<kChannels>
          <<<BlocksOf(strips / kChannels, in.x), kThreads, 0, stream>>>(job, strips / kChannels);
    } else {
      StripKernel<1><<<BlocksOf(strips, in.x), kThreads, 0, stream>>>(job, strips);
    }
  } else {
    OutputKernel<<<BlocksOf(output.numel(), in.x), kThreads, 0, stream>>>(job, output.numel());
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

void RpCpeCuda(const RpCpeInputs& in, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(in.x.device());
  cuda::ForType(in.x.scalar_type(), [&](auto element) { Launch<decltype(element)>(in, output); });
}

}  // namespace fovea::kernels
