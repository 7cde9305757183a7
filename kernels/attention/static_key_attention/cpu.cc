// The CPU implementation: dense attention's blocks with another weighting, and keys that the images
// of a batch share.
#include <ATen/core/Tensor.h>

#include "kernels/attention/dense_attention/cpu_blocks.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/attention/static_key_attention/implementations.h"

namespace fovea::kernels {

void StaticKeyAttentionCpu(const StaticKeyAttentionInputs& in, const at::Tensor& output) {
  const at::Tensor key = in.static_key.unsqueeze(0).expand_as(in.value);
  const attend::TokenSetsJob job =
      attend::MakeTokenSetsJob(in.query, key, in.value, std::nullopt, in.scale, output);
  const attend::WeightingTerms weighting = attend::TermsOf(in.activation);
  attend::ForTokenSets(job, in.query.size(0), /*adjusted=*/0,
                       [&](const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end) {
                         attend::AttendAllKeys(job, weighting, scratch, begin, end);
                       });
}

}  // namespace fovea::kernels
