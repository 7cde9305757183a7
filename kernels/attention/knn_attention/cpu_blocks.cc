// k-NN attention on the CPU, a block of rows at a time (shared/cpu_token_sets.h).
//
// Each vector of rows selects its keys by counting (select.h says how): sorting or a heap would
// move every logit many times and branch on each, while a round of counting streams them from L1
// without a branch, and a handful of rounds suffices. The softmax puts the weights where the logits
// were, zero below the threshold, and the second product takes them from there. A block's logits
// are all that is ever stored.
#include "kernels/attention/knn_attention/cpu_blocks.h"

#include <cstdint>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/knn_attention/cpu_blocks.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/shared/cpu_token_sets-inl.h"
#include "kernels/attention/shared/cpu_weights-inl.h"
#include "kernels/attention/shared/select-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

using knn::Selection;

// The logits of the vector of rows that begins at `column` of a block, to scratch.adjusted: scaled
// and biased if `scaled`, as they are if not.
LaneMoments TakeLogits(const TokenSetsJob& job, const TokenSetsScratch& scratch, const Block& block,
                       int64_t column, bool scaled) {
  const DF d;
  const float* from = scratch.logits + column;
  float* to = scratch.adjusted;
  if (!scaled) {
    return CopyAndMeasure(from, block.width, job.keys, to,
                          [](VF s, int64_t) HWY_ATTR { return s; });
  }
  const VF scale = hn::Set(d, job.scale);
  if (job.bias == nullptr) {
    return CopyAndMeasure(from, block.width, job.keys, to,
                          [&](VF s, int64_t) HWY_ATTR { return hn::Mul(s, scale); });
  }
  const float* bias = BiasOf(job, block) + column * job.bias_query;
  if (job.bias_query == 0) {
    return CopyAndMeasure(from, block.width, job.keys, to, [&](VF s, int64_t j) HWY_ATTR {
      return hn::MulAdd(s, scale, hn::Set(d, bias[j * job.bias_key]));
    });
  }
  // The bias is transposed to where the logits will lie.
  const int64_t left = block.rows - column;
  TransposeBias(job, bias, left < kLanes ? left : kLanes, kLanes, to);
  return CopyAndMeasure(from, block.width, job.keys, to, [&](VF s, int64_t j) HWY_ATTR {
    return hn::MulAdd(s, scale, hn::Load(d, to + j * kLanes));
  });
}

// Turns a block's products into weights, and writes its row factors; a vector of rows at a time.
template <WeightsAs kAs>
void SelectAndSoftmax(const TokenSetsJob& job, const Selection& selection,
                      const TokenSetsScratch& scratch, const Block& block) {
  constexpr float kLog2E = 1.44269504f;
  // A positive scale that does not make them larger changes neither the order of the logits nor
  // which are finite: without bias, the softmax can apply it.
  const bool scaled = job.bias != nullptr || job.scale > 1.0f || job.scale < 0x1p-64f;
  const float scale2 = scaled ? kLog2E : job.scale * kLog2E;
  for (int64_t column = 0; column < block.width; column += kLanes) {
    const LaneMoments moments = TakeLogits(job, scratch, block, column, scaled);
    const LaneRows rows = {scratch.adjusted, job.keys};
    const LaneThreshold threshold = SelectThreshold(rows, selection.topk, moments, selection.rank);
    float* weights = scratch.logits + column;
    const VF sum = threshold.any_ties ? SoftmaxAbove<kAs, true>(rows, threshold, moments.largest,
                                                                scale2, weights, block.width)
                                      : SoftmaxAbove<kAs, false>(rows, threshold, moments.largest,
                                                                 scale2, weights, block.width);
    hn::StoreU(RowFactor(sum, moments.broken), DF(), scratch.row_factors + column);
  }
}

}  // namespace

void AttendBlocks(const TokenSetsJob& job, const Selection& selection,
                  const TokenSetsScratch& scratch, int64_t begin, int64_t end) {
  AttendTokenSets(
      job, scratch, begin, end, [](const Block&, const Panel&) HWY_ATTR {},
      [&](const Block& block, const Panel& panel) HWY_ATTR {
        if (panel.arithmetic == Arithmetic::kBf16Gemm) {
          SelectAndSoftmax<WeightsAs::kBf16Pairs>(job, selection, scratch, block);
        } else {
          SelectAndSoftmax<WeightsAs::kFp32>(job, selection, scratch, block);
        }
      });
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::knn {

void AttendBlocks(const attend::TokenSetsJob& job, const Selection& selection,
                  const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(AttendBlocks)(job, selection, scratch, begin, end);
}

}  // namespace fovea::kernels::knn
#endif  // HWY_ONCE
