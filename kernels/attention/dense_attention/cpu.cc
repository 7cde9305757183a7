// The CPU implementation, outermost; cpu_blocks.cc has the algorithm.
#include "kernels/attention/dense_attention/cpu_blocks.h"
#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/shared/cpu_token_sets.h"

namespace fovea::kernels {

void DenseAttentionCpu(const DenseAttentionInputs& in, const at::Tensor& output) {
  const attend::TokenSetsJob job =
      attend::MakeTokenSetsJob(in.query, in.key, in.value, in.bias, in.scale, output);
  attend::ForTokenSets(job, in.query.size(0), attend::AllKeysWorkspace(job),
                       [&](const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end) {
                         attend::AttendAllKeys(job, {}, scratch, begin, end);
                       });
}

}  // namespace fovea::kernels
