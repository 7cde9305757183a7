// Linear layers one after the other, with the norms, activations and residuals around them, applied
// to a tile of rows at a time: what lies between two layers never leaves the cache of the core that
// works on it, and the cores wait for each other once.
//   A transformer's block is two chains around its attention: norm1 and the projection of queries,
//   keys and values; then the output's projection, the residual, norm2 and the MLP.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "kernels/linear/cpu_rows.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/simd/amx_layout.h"

namespace fovea::kernels {

// What is added to a layer's output.
enum class Residual {
  kNone,
  kGiven,  // rows that the chain is called with
  kInput,  // the rows that the chain begins with, before any norm
  kFirst,  // the output of its first layer
};

// residual_scale * residual + activation(norm(x) W^T + b). Pointers are the caller's and outlive
// the call.
struct LinearStep {
  const PackedMatrix* matrix = nullptr;
  const rows::NormTerms* norm = nullptr;  // null: none
  rows::Activation activation = rows::Activation::kNone;
  float star_scale = 1, star_bias = 0;
  Residual residual = Residual::kNone;
  const float* residual_scale = nullptr;  // [out]; null: 1
};

// Scratch memory per thread in bytes, sized for L2; exceeded only where 16 rows do not fit, and by
// 32 KiB of products where it is not AMX that multiplies.
inline constexpr int64_t kChainScratch = simd::kL2Scratch;

// input [..., in of the first step], on the CPU and contiguous -> [..., out of the last step] of
// the same type; residual, where a step asks for it, of that step's shape and the same type. That
// type follows from the matrices' products:
//   kFp32, kBf16x3      FP32
//   kBf16                BF16
//   kInt8 on AMX         BF16
//   kInt8 by vectors     BF16 (with AVX-512 only where simd::HasBf16Instructions()) or FP32
// Statistics and sums are fp32's; what a step leaves is rounded to the type. Inference only.
//   Products::kInt8: what a step multiplies is quantised (cpu_int8.h) when it has been normalised,
// without being rounded to the type before; so is what the next step multiplies, where there is
// nothing but an activation between the two, that one's matrix has scales for its inputs, and they
// are a multiple of 64.
at::Tensor RunChain(std::span<const LinearStep> steps, const at::Tensor& input,
                    const at::Tensor& residual = {});

}  // namespace fovea::kernels
