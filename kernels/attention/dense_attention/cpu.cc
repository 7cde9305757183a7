// The CPU implementation, outermost; cpu_blocks.cc has the algorithm.
#include <ATen/Functions.h>
#include <ATen/cpu/Utils.h>

#include "kernels/attention/dense_attention/cpu_blocks.h"
#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/shared/cpu_token_sets.h"

namespace fovea::kernels {
namespace {

// LibTorch reaches AMX tiles in bf16, where our panels were never measured; a bias it would want
// rounded to bf16. Elsewhere ours were faster, in both types and at every size from 16 to 8,192
// tokens, with AVX2 and with AVX-512 (docs/results/kernels_cpu.md).
bool TorchIsFaster(const DenseAttentionInputs& in) {
  static const bool has_amx = [] {
    const auto facts = at::cpu::get_cpu_capabilities();
    const auto found = facts.find("amx_bf16");
    return found != facts.end() && found->second.isBool() && found->second.toBool();
  }();
  return has_amx && in.query.scalar_type() == at::kBFloat16 && !in.bias;
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
