// The instructions that CUDA C++ has no portable names for: matrix products of one warp, loads of
// their operands, and copies into shared memory that the thread does not wait for. sm_80.
// tests/kernels/cuda_on_host/kernels/cuda/ptx.h stands in for this file where there is no GPU.
//
// Fragments are those of mma.m16n8k16 (PTX ISA, "Matrix fragments for mma.m16n8k16"): with
// g = lane / 4 and t = lane % 4,
//   left  a[0..3]: rows g, g+8, g, g+8 at columns 2t, 2t, 2t+8, 2t+8 and the next,
//   right b0, b1:  column g at rows 2t and 2t+8 and the next,
//   sum   c[0..3]: (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1).
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace fovea::kernels::cuda {

__device__ __forceinline__ uint32_t SharedAddress(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// Four 8x8 matrices of 16-bit elements. Lane 8*i + r gives the address of row r of matrix i; r[i]
// is the lane's pair of matrix i: row lane/4, columns lane%4*2 and the next.
__device__ __forceinline__ void LoadMatrices(const void* row, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
}

// The same, each matrix transposed.
__device__ __forceinline__ void LoadMatricesTransposed(const void* row, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row))
               : "memory");
}

// c += a [16, 16] * b [16, 8], for T = __nv_bfloat16 or __half.
template <class T>
__device__ __forceinline__ void MultiplyFragments(const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                                  float (&c)[4]) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    static_assert(std::is_same_v<T, __half>);
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Two numbers rounded to T, the first in the lower half.
template <class T>
__device__ __forceinline__ uint32_t Pack(float low, float high) {
  uint32_t bits;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    memcpy(&bits, &pair, sizeof(bits));
  } else {
    static_assert(std::is_same_v<T, __half>);
    const __half2 pair = __floats2half2_rn(low, high);
    memcpy(&bits, &pair, sizeof(bits));
  }
  return bits;
}

// Starts copying 16 bytes, aligned to as many. They are there when the thread has waited for the
// group that it committed after, and in other threads after a barrier.
__device__ __forceinline__ void CopyAsync(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(SharedAddress(shared)),
               "l"(__cvta_generic_to_global(global))
               : "memory");
}
__device__ __forceinline__ void CommitCopies() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}

// Waits for all but the last kPending groups that this thread committed.
template <int kPending>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

}  // namespace fovea::kernels::cuda
