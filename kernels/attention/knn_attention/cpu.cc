// The CPU implementation, outermost; cpu_blocks.cc has the algorithm.
#include "kernels/attention/knn_attention/cpu_blocks.h"
#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/attention/shared/cpu_token_sets.h"

namespace fovea::kernels {

void KnnAttentionCpu(const KnnAttentionInputs& in, const at::Tensor& output) {
  const attend::TokenSetsJob job =
      attend::MakeTokenSetsJob(in.query, in.key, in.value, in.bias, in.scale, output);
  const knn::Selection selection = knn::SelectionOf(in.topk, job.keys);
  attend::ForTokenSets(job, in.query.size(0), job.keys * attend::LanesNow(),
                       [&](const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end) {
                         knn::AttendBlocks(job, selection, scratch, begin, end);
                       });
}

}  // namespace fovea::kernels
