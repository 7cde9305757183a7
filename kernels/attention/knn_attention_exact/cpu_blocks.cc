// Exact k-NN attention on the CPU, a block of rows at a time (shared/cpu_token_sets.h).
//
// Selection is k-NN attention's (select.h), by proximity = product - |key|^2 / 2: one bias per key.
// The products stay where they are; the selected ones become logits in one walk, which finds their
// largest, and weights in the next.
#include "kernels/attention/knn_attention_exact/cpu_blocks.h"

#include <cstdint>
#include <cstring>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/knn_attention_exact/cpu_blocks.cc"
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

// The sum of the squares of `count` elements that load(c) gives a vector at a time and at(c) one.
template <class Load, class At>
float SumOfSquares(int64_t count, const Load& load, const At& at) {
  const DF d;
  VF sums = hn::Zero(d);
  int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) {
    const VF x = load(c);
    sums = hn::MulAdd(x, x, sums);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; c < count; ++c) sum += at(c) * at(c);
  return sum;
}

// |key|^2 / 2 of a head's keys.
void HalfSquares(const Panel& panel, float* to) {
  const DF d;
  for (int64_t j = 0; j < panel.keys; ++j) {
    if (panel.arithmetic == Arithmetic::kBf16Gemm) {
      const uint16_t* key = static_cast<const uint16_t*>(panel.key) + j * panel.key_stride;
      to[j] = SumOfSquares(
                  panel.depth, [&](int64_t c) HWY_ATTR { return LoadBf16(key + c); },
                  [&](int64_t c) HWY_ATTR { return Bf16At(key[c]); }) /
              2;
    } else {
      const float* key = static_cast<const float*>(panel.key) + j * panel.key_stride;
      to[j] = SumOfSquares(
                  panel.depth, [&](int64_t c) HWY_ATTR { return hn::LoadU(d, key + c); },
                  [&](int64_t c) HWY_ATTR { return key[c]; }) /
              2;
    }
  }
}

// A block's bias, transposed to [keys, width], or one per key; null: none.
struct ExactTerms {
  const float* bias;
  const float* key_bias;
  int64_t key_bias_stride;
};

VF BiasAt(const ExactTerms& terms, int64_t j, int64_t width, int64_t column) {
  const DF d;
  if (terms.bias != nullptr) return hn::LoadU(d, terms.bias + j * width + column);
  return hn::Set(d, terms.key_bias[j * terms.key_bias_stride]);
}

template <WeightsAs kAs, bool kBias>
void SelectAndSoftmax(const TokenSetsJob& job, const Selection& selection, const Panel& panel,
                      const ExactTerms& terms, const float* half_squares, float* proximities) {
  constexpr ExpPrecision kPrecision =
      kAs == WeightsAs::kFp32 ? ExpPrecision::kFp32 : ExpPrecision::kBf16;
  const DF d;
  const DI di;
  const VF scale = hn::Set(d, job.scale);
  const VF log2e = hn::Set(d, 1.44269504f);
  const VF minus_infinity = hn::Set(d, -kInfinity);
  for (int64_t column = 0; column < panel.width; column += kLanes) {
    float* const products = panel.logits + column;
    const LaneMoments moments = CopyAndMeasure(
        products, panel.width, panel.keys, proximities, [&](VF s, int64_t j) HWY_ATTR {
          const VF proximity = hn::Sub(s, hn::Set(d, half_squares[j]));
          if constexpr (!kBias) return proximity;
          const VF bias = BiasAt(terms, j, panel.width, column);
          const MF finite = hn::Lt(hn::Abs(bias), hn::Set(d, kInfinity));
          return hn::IfThenElse(finite, proximity, minus_infinity);
        });
    const LaneRows rows = {proximities, panel.keys};
    const LaneThreshold threshold = SelectThreshold(rows, selection.topk, moments, selection.rank);

    // Logits in place of the products; -inf where not selected.
    VF largest = minus_infinity;
    VF sum_of_logits = hn::Zero(d);
    VI seen = hn::Zero(di);
    for (int64_t j = 0; j < panel.keys; ++j) {
      const VF proximity = hn::Load(d, proximities + j * kLanes);
      MF selected = hn::Ge(proximity, threshold.at);
      if (threshold.any_ties) {
        const MF equal = hn::Eq(proximity, threshold.at);
        const MF late = hn::RebindMask(d, hn::Not(hn::Lt(seen, threshold.ties)));
        selected = hn::AndNot(hn::And(equal, late), selected);
        seen = CountIf(seen, equal);
      }
      const VF product = hn::LoadU(d, products + j * panel.width);
      VF logit;
      if constexpr (kBias) {
        logit = hn::MulAdd(product, scale, BiasAt(terms, j, panel.width, column));
      } else {
        logit = hn::Mul(product, scale);
      }
      logit = hn::IfThenElse(selected, logit, minus_infinity);
      largest = hn::Max(largest, logit);
      sum_of_logits = hn::Add(sum_of_logits, hn::IfThenElseZero(selected, logit));
      hn::StoreU(logit, d, products + j * panel.width);
    }
    const LaneExtremes extremes =
        FindExtremes(largest, sum_of_logits, products, panel.width, panel.keys);
    const VF sum = StoreWeights<kAs, /*kPositive=*/true>(
        panel.keys, products, panel.width, [&](int64_t j) HWY_ATTR {
          const VF logit = hn::LoadU(d, products + j * panel.width);
          const VF relative = hn::Mul(hn::Sub(logit, extremes.largest), log2e);
          return hn::IfThenElseZero(hn::Gt(logit, minus_infinity), Exp2<kPrecision>(d, relative));
        });
    hn::StoreU(RowFactor(sum, hn::Or(moments.broken, extremes.broken)), d,
               panel.row_factors + column);
  }
}

template <WeightsAs kAs>
void WeighExact(const TokenSetsJob& job, const Selection& selection, const Panel& panel,
                const ExactTerms& terms, const float* half_squares, float* proximities) {
  if (terms.bias == nullptr && terms.key_bias == nullptr) {
    SelectAndSoftmax<kAs, false>(job, selection, panel, terms, half_squares, proximities);
  } else {
    SelectAndSoftmax<kAs, true>(job, selection, panel, terms, half_squares, proximities);
  }
}

}  // namespace

void AttendBlocksExact(const TokenSetsJob& job, const Selection& selection,
                       const TokenSetsScratch& scratch, int64_t begin, int64_t end) {
  float* const proximities = scratch.adjusted;
  float* const half_squares = proximities + job.keys * kLanes;
  float* const bias = half_squares + (job.keys + kLanes - 1) / kLanes * kLanes;
  AttendTokenSets(
      job, scratch, begin, end,
      [&](const Block&, const Panel& panel) HWY_ATTR { HalfSquares(panel, half_squares); },
      [&](const Block& block, const Panel& panel) HWY_ATTR {
        ExactTerms terms{};
        if (job.bias != nullptr && job.bias_query == 0) {
          terms.key_bias = BiasOf(job, block);
          terms.key_bias_stride = job.bias_key;
        } else if (job.bias != nullptr) {
          TransposeBias(job, BiasOf(job, block), block.rows, block.width, bias);
          terms.bias = bias;
        }
        if (panel.arithmetic == Arithmetic::kBf16Gemm) {
          WeighExact<WeightsAs::kBf16Pairs>(job, selection, panel, terms, half_squares,
                                            proximities);
        } else {
          WeighExact<WeightsAs::kFp32>(job, selection, panel, terms, half_squares, proximities);
        }
      });
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::knn {

int64_t ExactWorkspace(const attend::TokenSetsJob& job) {
  const int64_t lanes = attend::LanesNow();
  const int64_t bias = job.bias != nullptr && job.bias_query != 0 ? job.keys * job.block_width : 0;
  return job.keys * lanes + (job.keys + lanes - 1) / lanes * lanes + bias;
}

void AttendBlocksExact(const attend::TokenSetsJob& job, const Selection& selection,
                       const attend::TokenSetsScratch& scratch, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(AttendBlocksExact)(job, selection, scratch, begin, end);
}

}  // namespace fovea::kernels::knn
#endif  // HWY_ONCE
