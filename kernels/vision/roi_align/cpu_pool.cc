// RoIAlign on the CPU: one region. Samples have become weights of rows and columns, for each bin,
// so that a pixel that several samples of a bin share is loaded once.
//
// Planes: for each row of bins, the rows of pixels are summed into one, a vector of columns at a
// time; bins then take their few columns from it. Channels-last: a vector is neighbouring channels,
// and each bin sums its pixels.
#include "kernels/vision/roi_align/cpu_pool.h"

#include <cstdint>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vision/roi_align/cpu_pool.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

using roi_align::Region;
using roi_align::Tap;
using roi_align::Taps;

constexpr int64_t kLanes = HWY_TARGET == HWY_AVX3 ? 16 : 8;

// Not named as Highway's, which argument-dependent lookup would prefer: they want aligned memory.
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const uint16_t* from) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> dh;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, from))));
}
template <class D>
HWY_INLINE void StoreNarrow(D d, hn::Vec<D> value, float* to) {
  hn::StoreU(value, d, to);
}
template <class D>
HWY_INLINE void StoreNarrow(D d, hn::Vec<D> value, uint16_t* to) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> dh;
  const auto bits = hn::ShiftRight<16>(RoundToBf16(d, value));
  hn::StoreU(hn::DemoteTo(dh, hn::BitCast(di, bits)), dh, to);
}

// Calls run(tag, i) for vectors at i that cover [0, count). The last one ends with the last
// element, and may overlap the one before.
template <int kCount, class Run>
HWY_INLINE void ForVectorsOf(int64_t count, const Run& run) {
  const hn::CappedTag<float, kCount> d;
  int64_t i = 0;
  for (; i + kCount <= count; i += kCount) run(d, i);
  if (i < count) run(d, count - kCount);
}
template <class Run>
HWY_INLINE void ForVectors(int64_t count, const Run& run) {
  if (count >= kLanes) return ForVectorsOf<kLanes>(count, run);
  if (count >= 4) return ForVectorsOf<4>(count, run);
  ForVectorsOf<1>(count, run);
}

template <class T>
void PoolPlanesOf(const Region& region) {
  const hn::CappedTag<float, 1> d1;
  for (int64_t channel = 0; channel < region.channels; ++channel) {
    const T* plane =
        static_cast<const T*>(region.image) + channel * region.image_channel + region.first_column;
    T* output = static_cast<T*>(region.output) + channel * region.output_channel;
    for (int64_t y = 0; y < region.h; ++y, output += region.output_row) {
      const int64_t first = region.rows.first[y];
      const int64_t past = region.rows.first[y + 1];
      ForVectors(region.column_count, [&](auto d, int64_t i) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (int64_t t = first; t < past; ++t) {
          const Tap& tap = region.rows.taps[t];
          sum = hn::MulAdd(LoadWide(d, plane + tap.offset + i), hn::Set(d, tap.weight), sum);
        }
        hn::StoreU(sum, d, region.row + i);
      });
      for (int64_t x = 0; x < region.w; ++x) {
        float sum = 0.0f;
        for (int64_t t = region.columns.first[x]; t < region.columns.first[x + 1]; ++t) {
          const Tap& tap = region.columns.taps[t];
          sum += tap.weight * region.row[tap.offset - region.first_column];
        }
        StoreNarrow(d1, hn::Set(d1, sum), output + x * region.output_column);
      }
    }
  }
}

template <class T>
void PoolChannelsLastOf(const Region& region) {
  const T* const image = static_cast<const T*>(region.image);
  for (int64_t y = 0; y < region.h; ++y) {
    for (int64_t x = 0; x < region.w; ++x) {
      T* output = static_cast<T*>(region.output) + y * region.output_row + x * region.output_column;
      ForVectors(region.channels, [&](auto d, int64_t channel) HWY_ATTR {
        auto sum = hn::Zero(d);
        for (int64_t r = region.rows.first[y]; r < region.rows.first[y + 1]; ++r) {
          const Tap& row = region.rows.taps[r];
          for (int64_t c = region.columns.first[x]; c < region.columns.first[x + 1]; ++c) {
            const Tap& column = region.columns.taps[c];
            sum = hn::MulAdd(LoadWide(d, image + row.offset + column.offset + channel),
                             hn::Set(d, row.weight * column.weight), sum);
          }
        }
        StoreNarrow(d, sum, output + channel);
      });
    }
  }
}

}  // namespace

void PoolPlanes(const Region& region) {
  (region.bf16 ? &PoolPlanesOf<uint16_t> : &PoolPlanesOf<float>)(region);
}

void PoolChannelsLast(const Region& region) {
  (region.bf16 ? &PoolChannelsLastOf<uint16_t> : &PoolChannelsLastOf<float>)(region);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::roi_align {

void PoolPlanes(const Region& region) { FOVEA_SIMD_CHOOSE(PoolPlanes)(region); }

void PoolChannelsLast(const Region& region) { FOVEA_SIMD_CHOOSE(PoolChannelsLast)(region); }

}  // namespace fovea::kernels::roi_align
#endif  // HWY_ONCE
