// The CPU implementation, outermost; cpu_blocks.cc has the algorithm.
#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention/dense_attention/cpu_blocks.h"
#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/simd/bf16_gemm.h"
#include "kernels/simd/isa.h"

namespace fovea::kernels {
namespace {

// From so many queries and keys on, a head's keys and values are copied together first: a
// projection leaves them a row of all heads' queries, keys and values apart, and they are read
// again for every block of queries. Measured from 784 tokens on, where it takes a tenth off; two
// fifths at 9,216.
constexpr int64_t kCopiedFrom = 768;

// A sum that overflows counts as not finite: nothing is lost by that but speed.
bool IsFinite(const at::Tensor& t) { return std::isfinite(t.sum(at::kFloat).item<float>()); }

}  // namespace

// LibTorch reaches AMX tiles in bf16, where our panels were never measured. A bias it would want
// rounded to bf16, and rows that are not finite it does not make NaN. In fp32 ours were faster at
// every size with AVX-512 (docs/results/kernels_cpu).
DenseCpuWay ChooseDenseCpuWay(const DenseAttentionInputs& in) {
  const bool torch = simd::HasAmx() && simd::HasBf16Gemm() &&
                     in.query.scalar_type() == at::kBFloat16 && !in.bias && IsFinite(in.query) &&
                     IsFinite(in.key);
  return torch ? DenseCpuWay::kTorch : DenseCpuWay::kPanels;
}

void DenseAttentionCpu(const DenseAttentionInputs& in, const at::Tensor& output) {
  DenseAttentionCpu(in, output, ChooseDenseCpuWay(in));
}

void DenseAttentionCpu(const DenseAttentionInputs& in, const at::Tensor& output, DenseCpuWay way) {
  if (way == DenseCpuWay::kTorch) {
    output.copy_(at::scaled_dot_product_attention(in.query, in.key, in.value, /*attn_mask=*/{},
                                                  /*dropout_p=*/0.0, /*is_causal=*/false,
                                                  in.scale));
    return;
  }
  const bool copied = std::min(in.query.size(2), in.key.size(2)) >= kCopiedFrom;
  const at::Tensor key = copied ? in.key.contiguous() : in.key,
                   value = copied ? in.value.contiguous() : in.value;
  const attend::TokenSetsJob job =
      attend::MakeTokenSetsJob(in.query, key, value, in.bias, in.scale, output);
  attend::ForTokenSets(job, in.query.size(0), attend::AllKeysWorkspace(job),
                       [&](const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end) {
                         attend::AttendAllKeys(job, {}, scratch, begin, end);
                       });
}

}  // namespace fovea::kernels
