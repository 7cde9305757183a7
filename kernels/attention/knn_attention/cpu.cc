// The CPU implementation, outermost; cpu_blocks.cc and shared/cpu_tiles.cc have the algorithms.
#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include "kernels/attention/knn_attention/cpu_blocks.h"
#include "kernels/attention/knn_attention/implementations.h"
#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/attention/shared/cpu_tiles_threads.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/attention/shared/panels_or_tiles.h"
#include "kernels/attention/shared/select.h"
#include "kernels/choice/questions.h"

namespace fovea::kernels {
namespace {

// Two heads of 64 channels to half of the keys, in either way.
auto TypicalCall(c10::ScalarType type, int64_t keys) {
  return [type, keys, qkv = at::Tensor(), output = at::Tensor()](AttentionWay way) mutable {
    if (!qkv.defined()) {
      qkv = TypicalNumbers({3, 1, 2, keys, 64}, type);
      output = at::empty_like(qkv[0]);
    }
    KnnAttentionCpu({qkv[0], qkv[1], qkv[2], (keys + 1) / 2, 0.125, std::nullopt}, output, way);
  };
}

void AttendTiles(const attend::TokenSetsJob& tiled, const knn::Selection& selection,
                 int64_t batch) {
  attend::ForTiles(tiled, batch, attend::NearestTilesScratchBytes(tiled),
                   [&](const attend::TokenSetsJob& job, char* scratch, int64_t begin, int64_t end) {
                     attend::AttendNearestOnTiles(job, selection, scratch, begin, end);
                   });
}

}  // namespace

AttentionWay FastestKnnAttentionWay(c10::ScalarType type, int64_t keys) {
  static attend::PanelsOrTiles<2> questions("knn_attention", {256, 1024});
  return questions.Faster(type, keys, [&](int64_t size) { return TypicalCall(type, size); });
}

void KnnAttentionCpu(const KnnAttentionInputs& in, const at::Tensor& output) {
  KnnAttentionCpu(in, output, FastestKnnAttentionWay(in.query.scalar_type(), in.key.size(2)));
}

void KnnAttentionCpu(const KnnAttentionInputs& in, const at::Tensor& output, AttentionWay way) {
  const attend::TokenSetsJob job =
      attend::MakeTokenSetsJob(in.query, in.key, in.value, in.bias, in.scale, output);
  const knn::Selection selection = knn::SelectionOf(in.topk, job.keys);
  if (attend::ByTiles(way, job)) return AttendTiles(job, selection, in.query.size(0));
  attend::ForTokenSets(job, in.query.size(0), job.keys * attend::LanesNow(),
                       [&](const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end) {
                         knn::AttendBlocks(job, selection, scratch, begin, end);
                       });
}

}  // namespace fovea::kernels
