// RoIAlign on CUDA, outermost: tensors into raw memory, one launch on the current stream.
// cuda_pool.h has the algorithm. Nothing here waits for the device or allocates.
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <cstdint>

#include "kernels/cuda/for_type.h"
#include "kernels/vision/roi_align/cuda_pool.h"
#include "kernels/vision/roi_align/implementations.h"

namespace fovea::kernels {
namespace {

using roi_align::CudaJob;
using roi_align::kThreads;

template <class T>
__global__ void __launch_bounds__(kThreads) PoolKernel(const CudaJob<T> job, int64_t outputs) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index < outputs) roi_align::PoolOutput(job, index);
}

template <class T>
void Launch(const RoiAlignInputs& in, const at::Tensor& output) {
  CudaJob<T> job{};
  job.input = static_cast<const T*>(in.input.const_data_ptr());
  job.batch = in.input.stride(0);
  job.channel = in.input.stride(1);
  job.row = in.input.stride(2);
  job.column = in.input.stride(3);
  job.images = in.input.size(0);
  job.channels = in.input.size(1);
  job.height = in.input.size(2);
  job.width = in.input.size(3);
  job.rois = in.rois.const_data_ptr<float>();
  job.output = static_cast<T*>(output.mutable_data_ptr());
  job.channels_last = !output.is_contiguous();
  job.h = in.h;
  job.w = in.w;
  job.sampling = in.sampling;
  job.spatial_scale = static_cast<float>(in.spatial_scale);
  job.aligned = in.aligned;
  const int64_t blocks = (output.numel() + kThreads - 1) / kThreads;
  TORCH_CHECK(blocks <= INT32_MAX, "roi_align: rois are too many for one launch: output shape ",
              output.sizes());
  PoolKernel<<<static_cast<unsigned>(blocks), kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      job, output.numel());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

void RoiAlignCuda(const RoiAlignInputs& in, const at::Tensor& output) {
  const c10::cuda::CUDAGuard device(in.input.device());
  cuda::ForType(in.input.scalar_type(),
                [&](auto element) { Launch<decltype(element)>(in, output); });
}

}  // namespace fovea::kernels
