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

// From so many queries and keys on, heads are attended one after the other, each one's keys and
// values copied together first: a projection leaves them a row of all heads' queries, keys and
// values apart, and they are read again for every block of queries. On an AMD EPYC copying takes a
// tenth to a fifth off at 2,000 tokens, two fifths at 9,216, two thirds at 61,504.
constexpr int64_t kCopiedFrom = 2048;

// A sum that overflows counts as not finite: nothing is lost by that but speed.
bool IsFinite(const at::Tensor& t) { return std::isfinite(t.sum(at::kFloat).item<float>()); }

void AttendPanels(const DenseAttentionInputs& in, const at::Tensor& output) {
  const attend::TokenSetsJob job =
      attend::MakeTokenSetsJob(in.query, in.key, in.value, in.bias, in.scale, output);
  attend::ForTokenSets(job, in.query.size(0), attend::AllKeysWorkspace(job),
                       [&](const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end) {
                         attend::AttendAllKeys(job, {}, scratch, begin, end);
                       });
}

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
  if (std::min(in.query.size(2), in.key.size(2)) < kCopiedFrom) {
    AttendPanels(in, output);
    return;
  }
  for (int64_t b = 0; b < in.query.size(0); ++b) {
    for (int64_t h = 0; h < in.query.size(1); ++h) {
      const auto head = [b, h](const at::Tensor& t) { return t.narrow(0, b, 1).narrow(1, h, 1); };
      DenseAttentionInputs one{head(in.query), head(in.key).contiguous(),
                               head(in.value).contiguous(), in.scale, std::nullopt};
      if (in.bias) one.bias = head(*in.bias);
      AttendPanels(one, head(output));
    }
  }
}

}  // namespace fovea::kernels
