// The CPU implementation, outermost; cpu_blocks.cc and shared/cpu_tiles.cc have the algorithms.
#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>

#include "kernels/attention/dense_attention/cpu_blocks.h"
#include "kernels/attention/dense_attention/implementations.h"
#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/attention/shared/cpu_tiles_threads.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/attention/shared/panels_or_tiles.h"
#include "kernels/choice/questions.h"
#include "kernels/threads.h"

namespace fovea::kernels {
namespace {

// From so many queries and keys on, each head's keys and values are copied together first: a
// projection leaves them a row of all heads' queries, keys and values apart, and they are read
// again for every block of queries (docs/results/detection_cpu).
constexpr int64_t kCopiedFrom = 2048;
// Only as many heads are copied at a time as keep the threads busy to the end.
constexpr int64_t kBlocksPerThread = 4;

attend::TokenSetsJob JobOf(const DenseAttentionInputs& in, const at::Tensor& output) {
  return attend::MakeTokenSetsJob(in.query, in.key, in.value, in.bias, in.scale, output);
}

void AttendPanels(const attend::TokenSetsJob& job, int64_t batch) {
  attend::ForTokenSets(job, batch, attend::AllKeysWorkspace(job),
                       [&](const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end) {
                         attend::AttendAllKeys(job, {}, scratch, begin, end);
                       });
}

// `blocks`: of a head.
void AttendCopies(const DenseAttentionInputs& in, int64_t blocks, const at::Tensor& output) {
  const int64_t batch = in.query.size(0), heads = in.query.size(1);
  const int64_t heads_together = (kBlocksPerThread * ThreadCount() + blocks - 1) / blocks;
  const int64_t images_at_once = std::clamp<int64_t>(heads_together / heads, 1, batch);
  const int64_t heads_at_once = std::min(heads_together, heads);
  for (int64_t b = 0; b < batch; b += images_at_once) {
    for (int64_t h = 0; h < heads; h += heads_at_once) {
      const auto part = [&](const at::Tensor& t) {
        return t.narrow(0, b, std::min(images_at_once, batch - b))
            .narrow(1, h, std::min(heads_at_once, heads - h));
      };
      DenseAttentionInputs copied{part(in.query), part(in.key).contiguous(),
                                  part(in.value).contiguous(), in.scale, std::nullopt};
      if (in.bias) copied.bias = part(*in.bias);
      AttendPanels(JobOf(copied, part(output)), copied.query.size(0));
    }
  }
}

void AttendTiles(const attend::TokenSetsJob& job, int64_t batch) {
  attend::ForTiles(job, batch, attend::TilesScratchBytes(job), attend::AttendOnTiles);
}

// Two heads of 64 channels, in either way.
auto TypicalCall(c10::ScalarType type, int64_t keys) {
  return [type, keys, qkv = at::Tensor(), output = at::Tensor()](AttentionWay way) mutable {
    if (!qkv.defined()) {
      qkv = TypicalNumbers({3, 1, 2, keys, 64}, type);
      output = at::empty_like(qkv[0]);
    }
    DenseAttentionCpu({qkv[0], qkv[1], qkv[2], 0.125, std::nullopt}, output, way);
  };
}

}  // namespace

AttentionWay FastestDenseAttentionWay(c10::ScalarType type, int64_t keys) {
  static attend::PanelsOrTiles<3> questions("dense_attention", {64, 256, 1024});
  return questions.Faster(type, keys, [&](int64_t size) { return TypicalCall(type, size); });
}

void DenseAttentionCpu(const DenseAttentionInputs& in, const at::Tensor& output) {
  DenseAttentionCpu(in, output, FastestDenseAttentionWay(in.query.scalar_type(), in.key.size(2)));
}

void DenseAttentionCpu(const DenseAttentionInputs& in, const at::Tensor& output, AttentionWay way) {
  const attend::TokenSetsJob job = JobOf(in, output);
  const int64_t batch = in.query.size(0);
  if (attend::ByTiles(way, job)) return AttendTiles(job, batch);
  const bool copies = std::min(in.query.size(2), in.key.size(2)) >= kCopiedFrom;
  if (copies) {
    AttendCopies(in, job.blocks, output);
  } else {
    AttendPanels(job, batch);
  }
}

}  // namespace fovea::kernels
