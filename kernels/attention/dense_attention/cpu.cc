// The CPU implementation, outermost; cpu_blocks.cc has the algorithm.
#include <ATen/Functions.h>
#include <ATen/cpu/Utils.h>

#include <cmath>

#include "kernels/attention/dense_attention/cpu_blocks.h"
#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/simd/bf16_gemm.h"

namespace fovea::kernels {
namespace {

bool HasAmx() {
  static const bool has = [] {
    const auto facts = at::cpu::get_cpu_capabilities();
    const auto found = facts.find("amx_bf16");
    return found != facts.end() && found->second.isBool() && found->second.toBool();
  }();
  return has && simd::HasBf16Gemm();
}

// A sum that overflows counts as not finite: nothing is lost by that but speed.
bool IsFinite(const at::Tensor& t) { return std::isfinite(t.sum(at::kFloat).item<float>()); }

// LibTorch reaches AMX tiles in bf16, where our panels were never measured. A bias it would want
// rounded to bf16, and rows that are not finite it does not make NaN. In fp32 ours were faster at
// every size with AVX-512 (docs/results/kernels_cpu).
bool TorchIsFaster(const DenseAttentionInputs& in) {
  return HasAmx() && in.query.scalar_type() == at::kBFloat16 && !in.bias && IsFinite(in.query) &&
         IsFinite(in.key);
}

}  // namespace

void DenseAttentionCpu(const DenseAttentionInputs& in, const at::Tensor& output) {
  if (TorchIsFaster(in)) {
    output.copy_(at::scaled_dot_product_attention(in.query, in.key, in.value, /*attn_mask=*/{},
                                                  /*dropout_p=*/0.0, /*is_causal=*/false,
                                                  in.scale));
    return;
  }
  const attend::TokenSetsJob job =
      attend::MakeTokenSetsJob(in.query, in.key, in.value, in.bias, in.scale, output);
  attend::ForTokenSets(job, in.query.size(0), attend::AllKeysWorkspace(job),
                       [&](const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end) {
                         attend::AttendAllKeys(job, {}, scratch, begin, end);
                       });
}

}  // namespace fovea::kernels
