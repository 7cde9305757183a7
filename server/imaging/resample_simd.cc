// Sums are 32-bit: 22 bits of weight times 8 of sample, with the weights of an output adding up to
// one. Exact, so every instruction set gives the same bytes.
#include "server/imaging/resample_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/imaging/resample_simd.cc"
#include <hwy/foreach_target.h>  // first of Highway's: includes this file again for each instruction set
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace fovea {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE uint8_t RoundToByte(int32_t sum) {
  return static_cast<uint8_t>(HWY_MIN(HWY_MAX((sum + kWeightHalf) >> kWeightBits, 0), 255));
}

// Bytes [from, bytes) of FilterDown.
HWY_INLINE void FilterDownPlainly(const uint8_t* const* rows, const int32_t* weights, int64_t taps,
                                  size_t from, size_t bytes, uint8_t* out) {
  for (size_t i = from; i < bytes; ++i) {
    int32_t sum = 0;
    for (int64_t t = 0; t < taps; ++t) sum += weights[t] * rows[t][i];
    out[i] = RoundToByte(sum);
  }
}

#if HWY_TARGET == HWY_SCALAR

void FilterAcross(const uint8_t* const rows[kRowsTogether], const AcrossWeights& weights,
                  uint8_t* const out[kRowsTogether]) {
  for (int r = 0; r < kRowsTogether; ++r) {
    uint8_t* to = out[r];
    for (const AcrossWeights::Range& range : weights.outputs) {
      const uint8_t* from = rows[r] + 3 * range.start;
      const int32_t* weight = weights.weights.data() + range.first_weight;
      for (int c = 0; c < 3; ++c) {
        int32_t sum = 0;
        for (int64_t t = 0; t < range.count; ++t) sum += weight[4 * t] * from[3 * t + c];
        *to++ = RoundToByte(sum);
      }
    }
  }
}

void FilterDown(const uint8_t* const* rows, const int32_t* weights, int64_t taps, size_t bytes,
                uint8_t* out) {
  FilterDownPlainly(rows, weights, taps, 0, bytes, out);
}

#else

// A pixel takes a block of four 32-bit lanes, the fourth idle; a vector holds up to four pixels.
#if HWY_HAVE_SCALABLE
using Sums = hn::FixedTag<int32_t, 4>;
#else
using Sums = hn::FixedTag<int32_t, HWY_MIN(HWY_LANES(int32_t), 16)>;
#endif
constexpr size_t kLanes = hn::MaxLanes(Sums());
constexpr int64_t kPixels = kLanes / 4;
using Samples = hn::Rebind<uint8_t, Sums>;

template <class V>
HWY_INLINE auto RoundToBytes(V sums) {
  const hn::DFromV<V> d;
  const auto shifted = hn::ShiftRight<kWeightBits>(hn::Add(sums, hn::Set(d, kWeightHalf)));
  return hn::DemoteTo(hn::Rebind<uint8_t, hn::DFromV<V>>(), shifted);
}

// The first bytes of `spread`, as many as `d` has lanes.
template <class D, class V>
HWY_INLINE hn::Vec<D> PromoteFirst(D d, V spread) {
  if constexpr (hn::MaxLanes(hn::DFromV<V>()) == hn::MaxLanes(d)) {
    return hn::PromoteTo(d, spread);
  } else {
    return PromoteFirst(d, hn::LowerHalf(spread));
  }
}

// kPixels pixels from 3 bytes each to four lanes each. Reads 16 bytes.
HWY_INLINE hn::Vec<Sums> LoadPixels(const uint8_t* from) {
  const hn::FixedTag<uint8_t, 16> bytes;
  alignas(16) static constexpr uint8_t kSpread[16] = {0, 1, 2, 2, 3, 4,  5,  5,
                                                      6, 7, 8, 8, 9, 10, 11, 11};
  return PromoteFirst(Sums(),
                      hn::TableLookupBytes(hn::LoadU(bytes, from), hn::Load(bytes, kSpread)));
}

// The sum of the pixels in a vector.
template <class V>
HWY_INLINE auto SumPixels(V sums) {
  constexpr size_t kSize = hn::MaxLanes(hn::DFromV<V>());
  if constexpr (kSize == 4) {
    return sums;
  } else {
    const hn::Half<hn::DFromV<V>> half;
    return SumPixels(hn::Add(hn::LowerHalf(half, sums), hn::UpperHalf(half, sums)));
  }
}

void FilterAcross(const uint8_t* const rows[kRowsTogether], const AcrossWeights& weights,
                  uint8_t* const out[kRowsTogether]) {
  static_assert(kRowsTogether == 4);
  const Sums d;
  const hn::FixedTag<uint8_t, 4> pixel;
  size_t at = 0;
  for (const AcrossWeights::Range& range : weights.outputs) {
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
    const int32_t* weight = weights.weights.data() + range.first_weight;
    for (int64_t t = 0; t < range.count; t += kPixels, weight += kLanes) {
      const auto w = hn::LoadU(d, weight);
      const int64_t from = 3 * (range.start + t);
      sum0 = hn::Add(sum0, hn::Mul(w, LoadPixels(rows[0] + from)));
      sum1 = hn::Add(sum1, hn::Mul(w, LoadPixels(rows[1] + from)));
      sum2 = hn::Add(sum2, hn::Mul(w, LoadPixels(rows[2] + from)));
      sum3 = hn::Add(sum3, hn::Mul(w, LoadPixels(rows[3] + from)));
    }
    // The fourth byte is overwritten by the next pixel.
    hn::StoreU(RoundToBytes(SumPixels(sum0)), pixel, out[0] + at);
    hn::StoreU(RoundToBytes(SumPixels(sum1)), pixel, out[1] + at);
    hn::StoreU(RoundToBytes(SumPixels(sum2)), pixel, out[2] + at);
    hn::StoreU(RoundToBytes(SumPixels(sum3)), pixel, out[3] + at);
    at += 3;
  }
}

void FilterDown(const uint8_t* const* rows, const int32_t* weights, int64_t taps, size_t bytes,
                uint8_t* out) {
  const Sums d;
  const Samples samples;
  size_t i = 0;
  for (; i + 4 * kLanes <= bytes; i += 4 * kLanes) {
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
    for (int64_t t = 0; t < taps; ++t) {
      const auto w = hn::Set(d, weights[t]);
      const uint8_t* row = rows[t] + i;
      sum0 = hn::Add(sum0, hn::Mul(w, hn::PromoteTo(d, hn::LoadU(samples, row))));
      sum1 = hn::Add(sum1, hn::Mul(w, hn::PromoteTo(d, hn::LoadU(samples, row + kLanes))));
      sum2 = hn::Add(sum2, hn::Mul(w, hn::PromoteTo(d, hn::LoadU(samples, row + 2 * kLanes))));
      sum3 = hn::Add(sum3, hn::Mul(w, hn::PromoteTo(d, hn::LoadU(samples, row + 3 * kLanes))));
    }
    hn::StoreU(RoundToBytes(sum0), samples, out + i);
    hn::StoreU(RoundToBytes(sum1), samples, out + i + kLanes);
    hn::StoreU(RoundToBytes(sum2), samples, out + i + 2 * kLanes);
    hn::StoreU(RoundToBytes(sum3), samples, out + i + 3 * kLanes);
  }
  FilterDownPlainly(rows, weights, taps, i, bytes, out);
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace fovea
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace fovea {

HWY_EXPORT(FilterAcross);
HWY_EXPORT(FilterDown);

AcrossWeights::AcrossWeights(const AxisWeights& axis) {
  for (int64_t i = 0; i < axis.outputs(); ++i) {
    outputs.push_back({axis.start(i), static_cast<int64_t>(weights.size()), axis.count(i)});
    for (const int32_t weight : axis.weights(i)) weights.insert(weights.end(), 4, weight);
    weights.resize((weights.size() + 15) / 16 * 16);
  }
}

void FilterAcross(const uint8_t* const rows[kRowsTogether], const AcrossWeights& weights,
                  uint8_t* const out[kRowsTogether]) {
  HWY_DYNAMIC_DISPATCH(FilterAcross)(rows, weights, out);
}

void FilterDown(const uint8_t* const* rows, const int32_t* weights, int64_t taps, size_t bytes,
                uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(FilterDown)(rows, weights, taps, bytes, out);
}

}  // namespace fovea
#endif  // HWY_ONCE
