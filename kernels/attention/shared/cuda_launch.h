// How CUDA kernels are launched. For .cu files.
#pragma once
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/Exceptions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <string_view>

namespace fovea::kernels::cuda {

// Bytes of shared memory that a block can have on the current device.
inline int SharedMemoryPerBlock() {
  return static_cast<int>(at::cuda::getCurrentDeviceProperties()->sharedMemPerBlockOptin);
}

// One launch on the current stream, with `bytes` of shared memory, which grow with `dim`. Nothing
// here waits for the device or allocates.
template <class Job>
void LaunchBlocks(std::string_view op, void (*kernel)(Job), const Job& job, int64_t blocks,
                  int threads, int64_t bytes, int64_t dim) {
  const int available = SharedMemoryPerBlock();
  TORCH_CHECK(bytes <= available, op, ": head_dim ", dim, " needs ", bytes,
              " bytes of shared memory, this GPU has ", available,
              "; FOVEA_FORCE_KERNEL=reference takes any head_dim");
  TORCH_CHECK(blocks <= INT32_MAX, op, ": query has too many rows for one launch: ", blocks,
              " thread blocks, at most ", INT32_MAX);
  AT_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(bytes)));
  kernel<<<static_cast<unsigned>(blocks), threads, bytes, at::cuda::getCurrentCUDAStream()>>>(job);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace fovea::kernels::cuda
