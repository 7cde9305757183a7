// Matrix products of raw memory with fp32 results: oneDNN's, through ATen, which reach AVX-512,
// its bf16 instructions and AMX. Highway 1.0 reaches neither of the last two.
//   Operands that begin on cache lines, rows included, are up to twice as fast on AMX.
#pragma once
#include <cstdint>

namespace fovea::kernels::simd {

// Whether Bf16Gemm runs here: the processor has bf16 instructions, and neither ATEN_CPU_CAPABILITY,
// ONEDNN_MAX_CPU_ISA, a ScopedIsa nor torch.backends.mkldnn keeps oneDNN from them.
bool HasBf16Gemm();
// Whether Fp32Gemm does: the same with AVX-512.
bool HasFp32Gemm();
// Whether our own code may use AMX's tiles (amx.h): the processor has them, and Bf16Gemm runs here,
// for which oneDNN has asked the system for the right to use them.
bool HasAmxTiles();

// C[m, n] = sum over k of A[m, k] * B[k, n]; bf16 as raw bits.
// A: rows * a_stride, elements of a row contiguous. B: pairs of rows interleaved, element (k, n) at
// b[(k / 2) * 2 * b_stride + 2 * n + k % 2]. `depth` even; columns = b_stride in 16, 32, 48, 64
// (what AMX's layouts allow). The kernel is generated at a thread's first call with these sizes and
// kept by that thread.
void Bf16Gemm(int64_t rows, int64_t columns, int64_t depth, const uint16_t* a, int64_t a_stride,
              const uint16_t* b, int64_t b_stride, float* c, int64_t c_stride);

// The same of fp32, B as rows of b_stride.
void Fp32Gemm(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t a_stride,
              const float* b, int64_t b_stride, float* c, int64_t c_stride);

// To be called by a thread after its last Bf16Gemm of a task: gives AMX's registers back.
void ReleaseBf16Gemm();

}  // namespace fovea::kernels::simd
