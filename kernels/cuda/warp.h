// Reductions over the 32 lanes of a warp, or over each four that follow each other (a quad); every
// lane gets the result, the same bits, and all lanes of the warp must take part.
#pragma once

namespace fovea::kernels::cuda {

inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

template <class T, class Op>
__device__ __forceinline__ T WarpReduce(T value, Op op) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

template <class T>
__device__ __forceinline__ T WarpSum(T value) {
  return WarpReduce(value, [](T a, T b) { return a + b; });
}

__device__ __forceinline__ float WarpMax(float value) {
  return WarpReduce(value, [](float a, float b) { return fmaxf(a, b); });
}

template <class T, class Op>
__device__ __forceinline__ T QuadReduce(T value, Op op) {
  value = op(value, __shfl_xor_sync(kAllLanes, value, 1));
  return op(value, __shfl_xor_sync(kAllLanes, value, 2));
}

template <class T>
__device__ __forceinline__ T QuadSum(T value) {
  return QuadReduce(value, [](T a, T b) { return a + b; });
}

__device__ __forceinline__ float QuadMin(float value) {
  return QuadReduce(value, [](float a, float b) { return fminf(a, b); });
}

__device__ __forceinline__ float QuadMax(float value) {
  return QuadReduce(value, [](float a, float b) { return fmaxf(a, b); });
}

}  // namespace fovea::kernels::cuda
