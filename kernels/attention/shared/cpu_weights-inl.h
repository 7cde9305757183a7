// From a panel's products to its weights: scale, bias and mask, then softmax or an activation.
// A panel's columns of logits are lanes of rows: nothing is summed across a vector.
#if defined(FOVEA_KERNELS_CPU_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_CPU_WEIGHTS_INL_H_
#undef FOVEA_KERNELS_CPU_WEIGHTS_INL_H_
#else
#define FOVEA_KERNELS_CPU_WEIGHTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

#include "kernels/attention/shared/cpu_panels-inl.h"
#include "kernels/attention/shared/cpu_panels.h"
#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/exp-inl.h"
#include "kernels/simd/gelu-inl.h"
#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using attend::LogitTerms;
using attend::Weighting;
using attend::WeightingTerms;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
using MF = hn::Mask<DF>;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// How the weights of a vector of rows are written.
enum class WeightsAs {
  kFp32,       // key j of lane i at to[j * stride + i]
  kBf16Pairs,  // keys 2j and 2j+1 of lane i as a pair of bf16 at to[j * stride + i]; 0 past the end
};

// Writes weight(j) for keys [0, keys) of a vector of rows and returns their sum. Row j of `to` may
// be what weight(j) and weight(j + 1) read, no later one. Only `kPositive` weights round cheaply.
template <WeightsAs kAs, bool kPositive, class Weight>
HWY_INLINE VF StoreWeights(int64_t keys, float* to, int64_t stride, const Weight& weight) {
  const DF d;
  const auto round = [](VF w) HWY_ATTR {
    if constexpr (kPositive) {
      return RoundPositiveToBf16(DF(), w);
    } else {
      return RoundToBf16(DF(), w);
    }
  };
  VF sum_even = hn::Zero(d);
  VF sum_odd = hn::Zero(d);
  int64_t j = 0;
  for (; j + 2 <= keys; j += 2) {
    const VF first = weight(j);
    const VF second = weight(j + 1);
    sum_even = hn::Add(sum_even, first);
    sum_odd = hn::Add(sum_odd, second);
    if constexpr (kAs == WeightsAs::kFp32) {
      hn::StoreU(first, d, to + j * stride);
      hn::StoreU(second, d, to + (j + 1) * stride);
    } else {
      hn::StoreU(hn::BitCast(d, PairBf16(round(first), round(second))), d, to + j / 2 * stride);
    }
  }
  if (j < keys) {
    const VF last = weight(j);
    sum_even = hn::Add(sum_even, last);
    if constexpr (kAs == WeightsAs::kFp32) {
      hn::StoreU(last, d, to + j * stride);
    } else {
      const auto pair = PairBf16(round(last), hn::Zero(hn::RebindToUnsigned<DF>()));
      hn::StoreU(hn::BitCast(d, pair), d, to + j / 2 * stride);
    }
  }
  return hn::Add(sum_even, sum_odd);
}

// What a softmax row's output is multiplied by, from the sum of its weights.
HWY_INLINE VF RowFactor(VF sum, MF broken) {
  const DF d;
  const VF factor = hn::IfThenElseZero(hn::Gt(sum, hn::Zero(d)), hn::Div(hn::Set(d, 1.0f), sum));
  return hn::IfThenElse(broken, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), factor);
}

// The logits of one vector of rows, in place of the products: calls `take` with each.
template <class Take>
HWY_INLINE void AdjustLogits(float* logits, int64_t stride, int64_t keys, const LogitTerms& terms,
                             int64_t column, const Take& take) {
  const DF d;
  const VF scale = hn::Set(d, terms.scale);
  const VF query_slice =
      terms.query_slice != nullptr ? hn::LoadU(d, terms.query_slice + column) : hn::Zero(d);
  const VF place = hn::Iota(d, static_cast<float>(terms.itself + column));
  for (int64_t j = 0; j < keys; ++j) {
    VF s = hn::LoadU(d, logits + j * stride);
    if (terms.bias != nullptr) {
      s = hn::MulAdd(s, scale, hn::LoadU(d, terms.bias + j * terms.bias_stride + column));
    } else if (terms.key_bias != nullptr) {
      s = hn::MulAdd(s, scale, hn::Set(d, terms.key_bias[j * terms.key_bias_stride]));
    } else {
      s = hn::Mul(s, scale);
    }
    if (terms.query_slice != nullptr) {
      const MF same = hn::Eq(query_slice, hn::Set(d, terms.key_slice[j]));
      s = hn::IfThenElse(same, s, hn::Set(d, -kInfinity));
    }
    if (terms.itself >= 0) {
      const MF same = hn::Eq(place, hn::Set(d, static_cast<float>(j)));
      s = hn::IfThenElse(same, hn::Set(d, -kInfinity), s);
    }
    hn::StoreU(s, d, logits + j * stride);
    take(s);
  }
}

// Lanes that hold a NaN or +inf.
inline HWY_NOINLINE MF BrokenLanes(const float* logits, int64_t stride, int64_t keys) {
  const DF d;
  MF broken = hn::Lt(hn::Zero(d), hn::Zero(d));
  for (int64_t j = 0; j < keys; ++j) {
    const VF s = hn::LoadU(d, logits + j * stride);
    broken = hn::Or(broken, hn::Or(hn::IsNaN(s), hn::Eq(s, hn::Set(d, kInfinity))));
  }
  return broken;
}

// What softmax knows of a vector of rows before it writes their weights.
struct LaneExtremes {
  VF largest;  // at least the least finite number, so that nothing is subtracted from -inf
  MF broken;
};

HWY_INLINE LaneExtremes FindExtremes(VF largest, VF sum, const float* logits, int64_t stride,
                                     int64_t keys) {
  const DF d;
  // A NaN may escape the maximum, but not the sum; which is NaN of +inf and -inf, too.
  const MF suspect = hn::Or(hn::IsNaN(sum), hn::Eq(largest, hn::Set(d, kInfinity)));
  MF broken = suspect;
  if (HWY_UNLIKELY(!hn::AllFalse(d, suspect))) broken = BrokenLanes(logits, stride, keys);
  return {hn::Max(largest, hn::Set(d, std::numeric_limits<float>::lowest())), broken};
}

// A row's largest logit and the sum of its weights relative to that: what merging two partial
// softmaxes needs.
struct SoftmaxOfLanes {
  VF largest;
  VF sum;
  MF broken;
};

// Softmax without the division, of one vector of rows. The products are in panel.logits.
template <WeightsAs kAs>
HWY_INLINE SoftmaxOfLanes SoftmaxColumn(const Panel& panel, const LogitTerms& terms,
                                        int64_t column) {
  constexpr float kLog2E = 1.44269504f;
  constexpr ExpPrecision kPrecision =
      kAs == WeightsAs::kFp32 ? ExpPrecision::kFp32 : ExpPrecision::kBf16;
  const DF d;
  float* const logits = panel.logits + column;
  const int64_t stride = panel.width;
  // A positive scale that does not make them larger changes neither the order of the logits nor
  // which are finite: the exponential can apply it.
  const bool plain = terms.bias == nullptr && terms.key_bias == nullptr &&
                     terms.query_slice == nullptr && terms.itself < 0 && terms.scale <= 1.0f &&
                     terms.scale >= 0x1p-64f;
  VF largest = hn::Set(d, -kInfinity);
  VF sum = hn::Zero(d);
  if (plain) {
    VF largest_odd = largest;
    VF sum_odd = sum;
    int64_t j = 0;
    for (; j + 2 <= panel.keys; j += 2) {
      const VF even = hn::LoadU(d, logits + j * stride);
      const VF odd = hn::LoadU(d, logits + (j + 1) * stride);
      largest = hn::Max(largest, even);
      largest_odd = hn::Max(largest_odd, odd);
      sum = hn::Add(sum, even);
      sum_odd = hn::Add(sum_odd, odd);
    }
    if (j < panel.keys) {
      const VF last = hn::LoadU(d, logits + j * stride);
      largest = hn::Max(largest, last);
      sum = hn::Add(sum, last);
    }
    largest = hn::Max(largest, largest_odd);
    sum = hn::Add(sum, sum_odd);
  } else {
    AdjustLogits(logits, stride, panel.keys, terms, column, [&](VF s) HWY_ATTR {
      largest = hn::Max(largest, s);
      sum = hn::Add(sum, s);
    });
  }
  const LaneExtremes extremes = FindExtremes(largest, sum, logits, stride, panel.keys);
  const VF factor = hn::Set(d, plain ? terms.scale * kLog2E : kLog2E);
  const bool may_be_masked = !plain || !hn::AllFalse(d, hn::Eq(sum, hn::Set(d, -kInfinity)));
  const VF total =
      StoreWeights<kAs, /*kPositive=*/true>(panel.keys, logits, stride, [&](int64_t j) HWY_ATTR {
        const VF s = hn::LoadU(d, logits + j * stride);
        const VF weight = Exp2<kPrecision>(d, hn::Mul(hn::Sub(s, extremes.largest), factor));
        // Exp2 of -inf is not quite zero, which only rows of nothing else notice.
        return may_be_masked ? hn::IfThenElseZero(hn::Gt(s, hn::Set(d, -kInfinity)), weight)
                             : weight;
      });
  return {plain ? hn::Mul(extremes.largest, hn::Set(d, terms.scale)) : extremes.largest, total,
          extremes.broken};
}

template <WeightsAs kAs>
HWY_INLINE void SoftmaxPanel(const Panel& panel, const LogitTerms& terms) {
  for (int64_t column = 0; column < panel.width; column += kLanes) {
    const SoftmaxOfLanes softmax = SoftmaxColumn<kAs>(panel, terms, column);
    hn::StoreU(RowFactor(softmax.sum, softmax.broken), DF(), panel.row_factors + column);
  }
}

// The weights of an activation that normalises nothing.
template <WeightsAs kAs, Weighting kKind>
HWY_INLINE void ActivatePanel(const Panel& panel, const LogitTerms& terms,
                              const WeightingTerms& weighting) {
  const DF d;
  const VF scale = hn::Set(d, weighting.scale);
  const VF bias = hn::Set(d, weighting.bias);
  for (int64_t column = 0; column < panel.width; column += kLanes) {
    float* const logits = panel.logits + column;
    AdjustLogits(logits, panel.width, panel.keys, terms, column, [](VF) HWY_ATTR {});
    StoreWeights<kAs, /*kPositive=*/false>(
        panel.keys, logits, panel.width, [&](int64_t j) HWY_ATTR {
          const VF s = hn::LoadU(d, logits + j * panel.width);
          if constexpr (kKind == Weighting::kGelu) return Gelu(d, s);
          // Not Max, which loses NaN.
          const VF rectified = hn::IfThenZeroElse(hn::Lt(s, hn::Zero(d)), s);
          if constexpr (kKind == Weighting::kRelu) return rectified;
          return hn::MulAdd(hn::Mul(rectified, rectified), scale, bias);
        });
    hn::StoreU(hn::Set(d, 1.0f), d, panel.row_factors + column);
  }
}

template <WeightsAs kAs>
HWY_INLINE void WeighPanelAs(const Panel& panel, const LogitTerms& terms,
                             const WeightingTerms& weighting) {
  switch (weighting.kind) {
    case Weighting::kSoftmax:
      return SoftmaxPanel<kAs>(panel, terms);
    case Weighting::kGelu:
      return ActivatePanel<kAs, Weighting::kGelu>(panel, terms, weighting);
    case Weighting::kRelu:
      return ActivatePanel<kAs, Weighting::kRelu>(panel, terms, weighting);
    case Weighting::kStarRelu:
      return ActivatePanel<kAs, Weighting::kStarRelu>(panel, terms, weighting);
  }
}

// From the products in panel.logits to weights and row factors.
HWY_INLINE void WeighPanel(const Panel& panel, const LogitTerms& terms,
                           const WeightingTerms& weighting) {
  if (panel.arithmetic == Arithmetic::kBf16Gemm) {
    WeighPanelAs<WeightsAs::kBf16Pairs>(panel, terms, weighting);
  } else {
    WeighPanelAs<WeightsAs::kFp32>(panel, terms, weighting);
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
