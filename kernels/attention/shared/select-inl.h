// Selection and softmax for a vector of rows at once, one row per lane: the search of select.h in
// lanes. Logits lie transposed, so nothing is ever summed across a vector and no row has a tail.
#if defined(FOVEA_KERNELS_KNN_SELECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_KNN_SELECT_INL_H_
#undef FOVEA_KERNELS_KNN_SELECT_INL_H_
#else
#define FOVEA_KERNELS_KNN_SELECT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

#include "kernels/attention/shared/cpu_weights-inl.h"
#include "kernels/attention/shared/select.h"
#include "kernels/simd/exp-inl.h"
#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DI = hn::ScalableTag<int32_t>;
using VI = hn::Vec<DI>;

// The logits of one vector of rows, key j of lane i at data[j * kLanes + i]. Contiguous, because a
// walk down one vector of a wider matrix would touch few of L1's sets, and miss.
struct LaneRows {
  const float* data;
  int64_t keys;
};

// select.h's Moments, in lanes, of the finite logits; `broken` lanes hold a NaN or +inf.
struct LaneMoments {
  VI count;
  VF sum;
  VF squares;
  VF smallest;
  VF largest;
  MF broken;
};

// select.h's outcome, in lanes. `ties` is meaningful only if any_ties: without, logits >= at take
// part, with, those > at and the first `ties` that equal it.
struct LaneThreshold {
  VF at;
  VI ties;
  bool any_ties;
};

HWY_INLINE VI CountIf(VI count, MF mask) {
  const DI d;
#if HWY_TARGET == HWY_AVX3
  return hn::IfThenElse(hn::RebindMask(d, mask), hn::Add(count, hn::Set(d, 1)), count);
#else
  return hn::Sub(count, hn::VecFromMask(d, hn::RebindMask(d, mask)));
#endif
}

HWY_INLINE LaneMoments NoMoments() {
  const DF d;
  const VF infinity = hn::Set(d, kInfinity);
  return {hn::Zero(DI()), hn::Zero(d),       hn::Zero(d),
          infinity,       hn::Neg(infinity), hn::Lt(infinity, infinity)};
}

// Moments where some logit is not finite, or their squares overflow.
inline HWY_NOINLINE LaneMoments MeasureFinite(LaneRows rows) {
  const DF d;
  const VF infinity = hn::Set(d, kInfinity);
  LaneMoments m = NoMoments();
  for (int64_t j = 0; j < rows.keys; ++j) {
    const VF s = hn::Load(d, rows.data + j * kLanes);
    const MF finite = hn::Lt(hn::Abs(s), infinity);
    const VF value = hn::IfThenElseZero(finite, s);
    m.count = CountIf(m.count, finite);
    m.sum = hn::Add(m.sum, value);
    m.squares = hn::MulAdd(value, value, m.squares);
    m.smallest = hn::Min(m.smallest, hn::IfThenElse(finite, s, infinity));
    m.largest = hn::Max(m.largest, hn::IfThenElse(finite, s, hn::Neg(infinity)));
    m.broken = hn::Or(m.broken, hn::Or(hn::IsNaN(s), hn::Eq(s, infinity)));
  }
  return m;
}

// Copies logits from a matrix (key j of lane i at from[j * stride + i]) to `to`, laid out as
// LaneRows, as adjust(logits, j) makes them, and takes their moments on the way.
template <class Adjust>
HWY_INLINE LaneMoments CopyAndMeasure(const float* from, int64_t stride, int64_t keys, float* to,
                                      const Adjust& adjust) {
  const DF d;
  LaneMoments even = NoMoments();
  LaneMoments odd = NoMoments();
  const auto take = [&](LaneMoments& m, int64_t j) HWY_ATTR {
    const VF s = adjust(hn::LoadU(d, from + j * stride), j);
    hn::Store(s, d, to + j * kLanes);
    m.sum = hn::Add(m.sum, s);
    m.squares = hn::MulAdd(s, s, m.squares);
    m.smallest = hn::Min(m.smallest, s);
    m.largest = hn::Max(m.largest, s);
  };
  int64_t j = 0;
  for (; j + 2 <= keys; j += 2) {
    take(even, j);
    take(odd, j + 1);
  }
  if (j < keys) take(even, j);
  even.sum = hn::Add(even.sum, odd.sum);
  even.squares = hn::Add(even.squares, odd.squares);
  even.smallest = hn::Min(even.smallest, odd.smallest);
  even.largest = hn::Max(even.largest, odd.largest);
  even.count = hn::Set(DI(), static_cast<int32_t>(keys));
  // Any NaN or infinity makes the squares one.
  if (!hn::AllTrue(d, hn::Lt(even.squares, hn::Set(d, kInfinity)))) {
    return MeasureFinite({to, keys});
  }
  return even;
}

struct LaneNeighbours {
  VI count;
  VF above;
  VF below;
};

// The inner loop of everything: about five instructions a key. Four independent chains, with the
// choice of what enters a chain kept off it.
HWY_INLINE LaneNeighbours CountAtLeast(LaneRows rows, VF t) {
  const DF d;
  const VF infinity = hn::Set(d, kInfinity);
  const VF minus_infinity = hn::Neg(infinity);
  const LaneNeighbours none = {hn::Zero(DI()), infinity, minus_infinity};
  const auto take = [&](LaneNeighbours& n, int64_t j) HWY_ATTR {
    const VF s = hn::Load(d, rows.data + j * kLanes);
    const MF at_least = hn::Ge(s, t);
    n.count = CountIf(n.count, at_least);
    n.above = hn::IfThenElse(at_least, hn::Min(n.above, s), n.above);
    n.below = hn::Max(n.below, hn::IfThenElse(at_least, minus_infinity, s));
  };
  const auto join = [](LaneNeighbours& into, const LaneNeighbours& n) HWY_ATTR {
    into.count = hn::Add(into.count, n.count);
    into.above = hn::Min(into.above, n.above);
    into.below = hn::Max(into.below, n.below);
  };
  LaneNeighbours a = none, b = none, c = none, e = none;
  int64_t j = 0;
  for (; j + 4 <= rows.keys; j += 4) {
    take(a, j);
    take(b, j + 1);
    take(c, j + 2);
    take(e, j + 3);
  }
  for (; j < rows.keys; ++j) take(a, j);
  join(a, b);
  join(c, e);
  join(a, c);
  return a;
}

// OrderOf and FloatAt of select.h: the mapping is its own inverse.
HWY_INLINE VI OrderOf(VF x) {
  const DI d;
  const VI bits = hn::BitCast(d, hn::Add(x, hn::Zero(DF())));
  return hn::Xor(bits, hn::And(hn::BroadcastSignBit(bits), hn::Set(d, 0x7FFFFFFF)));
}
HWY_INLINE VF FloatAt(VI order) {
  const DI d;
  return hn::BitCast(DF(),
                     hn::Xor(order, hn::And(hn::BroadcastSignBit(order), hn::Set(d, 0x7FFFFFFF))));
}

struct LaneRank {
  VF deviations;
  VF per_rank;
};

// RankInNormal where each lane has its own number of finite logits. Lanes that need no search
// (k >= count) get zeros.
inline HWY_NOINLINE LaneRank RankLanes(int32_t k, VI counts) {
  const DF d;
  HWY_ALIGN int32_t count[kLanes];
  HWY_ALIGN float deviations[kLanes];
  HWY_ALIGN float per_rank[kLanes];
  hn::Store(counts, DI(), count);
  for (int64_t i = 0; i < kLanes; ++i) {
    const knn::NormalRank rank =
        k < count[i] ? knn::RankInNormal(k, count[i]) : knn::NormalRank{0.0f, 0.0f};
    deviations[i] = rank.deviations;
    per_rank[i] = rank.per_rank;
  }
  return {hn::Load(d, deviations), hn::Load(d, per_rank)};
}

struct LaneSeed {
  VF guess;
  VF rank_width;
};

// `rank` is RankInNormal(k, keys), for the usual case that every logit is finite.
HWY_INLINE LaneSeed MomentSeed(const LaneMoments& m, int32_t k, int64_t keys,
                               knn::NormalRank rank) {
  const DF d;
  const VF count = hn::ConvertTo(d, m.count);
  const VF mean = hn::Div(m.sum, count);
  const VF variance = hn::NegMulAdd(mean, mean, hn::Div(m.squares, count));
  const VF deviation = hn::Sqrt(hn::Max(variance, hn::Zero(d)));
  const MF all_finite =
      hn::RebindMask(d, hn::Eq(m.count, hn::Set(DI(), static_cast<int32_t>(keys))));
  LaneRank ranks = {hn::Set(d, rank.deviations), hn::Set(d, rank.per_rank)};
  if (!hn::AllTrue(d, all_finite)) ranks = RankLanes(k, m.count);
  return {hn::MulAdd(deviation, ranks.deviations, mean), hn::Mul(deviation, ranks.per_rank)};
}

// select.h's ThresholdSearch, in lanes, until every lane is done. 0 < k <= keys.
HWY_INLINE LaneThreshold SelectThreshold(LaneRows rows, int32_t k_all, const LaneMoments& moments,
                                         knn::NormalRank rank) {
  const DF d;
  const DI di;
  const VI k = hn::Set(di, k_all);
  const VI all_ties = hn::Set(di, knn::kAllTies);
  const MF none_finite = hn::RebindMask(d, hn::Eq(moments.count, hn::Zero(di)));

  VF low = moments.smallest;
  VF high = moments.largest;
  VI low_count = moments.count;
  VI high_count = hn::Zero(di);
  // Every finite logit takes part where there are no more than k of them; nothing, where there is
  // none or where NaN or +inf have spoilt the row anyway.
  MF done = hn::RebindMask(d, hn::Not(hn::Gt(moments.count, k)));
  const MF nothing = hn::Or(moments.broken, none_finite);
  VF found = hn::IfThenElse(nothing, hn::Set(d, kInfinity), low);
  VI ties = all_ties;
  done = hn::Or(done, nothing);
  const MF constant = hn::AndNot(done, hn::Eq(low, high));
  ties = hn::IfThenElse(hn::RebindMask(di, constant), k, ties);
  done = hn::Or(done, constant);
  if (hn::AllTrue(d, done)) {
    return {found, ties, !hn::AllTrue(di, hn::Eq(ties, all_ties))};
  }

  const LaneSeed seed = MomentSeed(moments, k_all, rows.keys, rank);
  VF guess = seed.guess;
  for (int round = 1;; ++round) {
    // Keeps the guess in (low, high], where every one makes progress.
    guess = hn::IfThenElse(hn::And(hn::Gt(guess, low), hn::Le(guess, high)), guess, high);
    const LaneNeighbours at = CountAtLeast(rows, guess);

    const MF hit = hn::AndNot(done, hn::RebindMask(d, hn::Eq(at.count, k)));
    found = hn::IfThenElse(hit, guess, found);
    done = hn::Or(done, hit);
    const MF too_many = hn::RebindMask(d, hn::Gt(at.count, k));
    low = hn::IfThenElse(too_many, at.above, low);
    low_count = hn::IfThenElse(hn::RebindMask(di, too_many), at.count, low_count);
    high = hn::IfThenElse(too_many, high, at.below);
    high_count = hn::IfThenElse(hn::RebindMask(di, too_many), high_count, at.count);
    const MF tied = hn::AndNot(done, hn::Eq(low, high));
    found = hn::IfThenElse(tied, low, found);
    ties = hn::IfThenElse(hn::RebindMask(di, tied), hn::Sub(k, high_count), ties);
    done = hn::Or(done, tied);
    if (hn::AllTrue(d, done)) break;

    if (round >= knn::kInterpolationRounds) {
      const VI a = OrderOf(low);
      const VI b = OrderOf(high);
      guess = FloatAt(hn::Sub(hn::Or(a, b), hn::ShiftRight<1>(hn::Xor(a, b))));
      continue;
    }
    if (round == 1) {
      const VF off = hn::ConvertTo(d, hn::Sub(at.count, k));
      guess = hn::MulAdd(off, seed.rank_width, guess);
    } else {
      const VF share = hn::Div(hn::ConvertTo(d, hn::Sub(low_count, k)),
                               hn::ConvertTo(d, hn::Sub(low_count, high_count)));
      guess = hn::MulAdd(share, hn::Sub(high, low), low);
    }
    const VI one = hn::Set(di, 1);
    const MF one_too_many = hn::RebindMask(d, hn::Eq(hn::Sub(low_count, k), one));
    guess = hn::IfThenElse(one_too_many, FloatAt(hn::Add(OrderOf(low), one)), guess);
    const MF one_missing = hn::RebindMask(d, hn::Eq(hn::Sub(k, high_count), one));
    guess = hn::IfThenElse(one_missing, high, guess);
  }
  return {found, ties, !hn::AllTrue(di, hn::Eq(ties, all_ties))};
}

// Writes exp((logit - largest) * scale) where selected, 0 elsewhere, and returns their sums.
// `scale2` is scale * log2(e).
template <WeightsAs kAs, bool kTies>
HWY_INLINE VF SoftmaxAbove(LaneRows rows, const LaneThreshold& threshold, VF largest, float scale2,
                           float* to, int64_t stride) {
  const DF d;
  const DI di;
  constexpr ExpPrecision kPrecision =
      kAs == WeightsAs::kFp32 ? ExpPrecision::kFp32 : ExpPrecision::kBf16;
  const VF factor = hn::Set(d, scale2);
  VI seen = hn::Zero(di);
  const auto weight = [&](int64_t j) HWY_ATTR {
    const VF s = hn::Load(d, rows.data + j * kLanes);
    MF selected = hn::Ge(s, threshold.at);
    if constexpr (kTies) {
      const MF equal = hn::Eq(s, threshold.at);
      const MF late = hn::RebindMask(d, hn::Not(hn::Lt(seen, threshold.ties)));
      selected = hn::AndNot(hn::And(equal, late), selected);
      seen = CountIf(seen, equal);
    }
    return hn::IfThenElseZero(selected, Exp2<kPrecision>(d, hn::Mul(hn::Sub(s, largest), factor)));
  };

  return StoreWeights<kAs, /*kPositive=*/true>(rows.keys, to, stride, weight);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
