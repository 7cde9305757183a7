// Non-maximum suppression on CUDA, outermost: tensors into raw memory, two launches on the current
// stream. cuda_masks.h has the algorithm. Nothing here waits for the device.
#include <ATen/Functions.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <cstdint>

#include "kernels/vision/nms/cuda_masks.h"
#include "kernels/vision/nms/implementations.h"

namespace fovea::kernels {
namespace {

using nms::CudaJob;
using nms::kBits;

template <class T>
__global__ void __launch_bounds__(kBits) CompareKernel(const CudaJob<T> job) {
  __shared__ T shared[kBits * 4];
  nms::CompareBlocks(job, shared);
}

template <class T>
__global__ void __launch_bounds__(nms::kReduceThreads) ReduceKernel(const CudaJob<T> job) {
  __shared__ uint64_t shared[kBits + 1];
  nms::Reduce(job, shared);
}

template <class T>
void Launch(const NmsInputs& in, const at::Tensor& keep) {
  const int64_t count = in.boxes.size(0);
  const int64_t words = (count + kBits - 1) / kBits;
  TORCH_CHECK(words <= INT32_MAX / words, "nms: boxes are too many for one launch: shape ",
              in.boxes.sizes());
  const auto int64s = in.boxes.options().dtype(at::kLong);
  const at::Tensor masks = at::empty({count, words}, int64s);
  const at::Tensor removed = at::zeros({words}, int64s);

  CudaJob<T> job{};
  job.boxes = in.boxes.const_data_ptr<T>();
  job.masks = reinterpret_cast<uint64_t*>(masks.mutable_data_ptr<int64_t>());
  job.removed = reinterpret_cast<uint64_t*>(removed.mutable_data_ptr<int64_t>());
  job.keep = keep.mutable_data_ptr<bool>();
  job.count = count;
  job.words = words;
  job.iou = in.iou;
  const auto stream = at::cuda::getCurrentCUDAStream();
  CompareKernel<<<static_cast<unsigned>(words * words), kBits, 0, stream>>>(job);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  ReduceKernel<<<1, nms::kReduceThreads, 0, stream>>>(job);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

void NmsCuda(const NmsInputs& in, const at::Tensor& keep) {
  const c10::cuda::CUDAGuard device(in.boxes.device());
  const auto launch = in.boxes.scalar_type() == at::kDouble ? &Launch<double> : &Launch<float>;
  launch(in, keep);
}

}  // namespace fovea::kernels
