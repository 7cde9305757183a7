// Transposes between memory, 32 and 16 bits wide.
#if defined(FOVEA_KERNELS_SIMD_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_SIMD_TRANSPOSE_INL_H_
#undef FOVEA_KERNELS_SIMD_TRANSPOSE_INL_H_
#else
#define FOVEA_KERNELS_SIMD_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One vector of four-element blocks from rows 0, 4, 8, ... of `src`.
HWY_INLINE hn::Vec<hn::ScalableTag<uint32_t>> LoadBlocksOfRows(const uint32_t* src,
                                                               int64_t stride) {
  const hn::ScalableTag<uint32_t> d;
  const hn::FixedTag<uint32_t, 4> d4;
  const hn::FixedTag<uint32_t, 8> d8;
  const auto low = hn::Combine(d8, hn::LoadU(d4, src + 4 * stride), hn::LoadU(d4, src));
#if HWY_TARGET == HWY_AVX3
  const auto high =
      hn::Combine(d8, hn::LoadU(d4, src + 12 * stride), hn::LoadU(d4, src + 8 * stride));
  return hn::Combine(d, high, low);
#else
  (void)d;
  return low;
#endif
}

// dst[c * dst_stride + r] = src[r * src_stride + c], strides in elements. Whole vectors of rows and
// fours of columns are fast.
HWY_INLINE void Transpose32(const uint32_t* src, int64_t src_stride, int64_t rows, int64_t cols,
                            uint32_t* dst, int64_t dst_stride) {
  const hn::ScalableTag<uint32_t> d;
  const hn::RepartitionToWide<decltype(d)> d64;
  const int64_t lanes = hn::Lanes(d);
  int64_t r = 0;
  for (; r + lanes <= rows; r += lanes) {
    const uint32_t* from = src + r * src_stride;
    int64_t c = 0;
    for (; c + 4 <= cols; c += 4) {
      // Within each 128-bit block a 4x4 transpose; the blocks hold rows 0-3, 4-7, ... already.
      const auto row0 = LoadBlocksOfRows(from + c, src_stride);
      const auto row1 = LoadBlocksOfRows(from + c + src_stride, src_stride);
      const auto row2 = LoadBlocksOfRows(from + c + 2 * src_stride, src_stride);
      const auto row3 = LoadBlocksOfRows(from + c + 3 * src_stride, src_stride);
      const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, row0, row1));
      const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, row2, row3));
      const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, row0, row1));
      const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, row2, row3));
      uint32_t* to = dst + c * dst_stride + r;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)), d, to);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)), d, to + dst_stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, high01, high23)), d, to + 2 * dst_stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23)), d, to + 3 * dst_stride);
    }
    for (; c < cols; ++c) {
      for (int64_t i = 0; i < lanes; ++i) dst[c * dst_stride + r + i] = from[i * src_stride + c];
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) dst[c * dst_stride + r] = src[r * src_stride + c];
  }
}

// The same for 16 bits; eights of rows and columns are fast.
HWY_INLINE void Transpose16(const uint16_t* src, int64_t src_stride, int64_t rows, int64_t cols,
                            uint16_t* dst, int64_t dst_stride) {
  const hn::FixedTag<uint16_t, 8> d;
  const hn::FixedTag<uint32_t, 4> d32;
  const hn::FixedTag<uint64_t, 2> d64;
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8) {
    int64_t c = 0;
    for (; c + 8 <= cols; c += 8) {
      const uint16_t* from = src + r * src_stride + c;
      // Pairs of rows, then fours, then eights: after each step an element holds that many rows.
      hn::Vec<decltype(d32)> low[4], high[4];  // columns 0-3 and 4-7 of rows 2i and 2i+1
      for (int i = 0; i < 4; ++i) {
        const auto even = hn::LoadU(d, from + 2 * i * src_stride);
        const auto odd = hn::LoadU(d, from + (2 * i + 1) * src_stride);
        low[i] = hn::BitCast(d32, hn::InterleaveLower(d, even, odd));
        high[i] = hn::BitCast(d32, hn::InterleaveUpper(d, even, odd));
      }
      uint16_t* to = dst + c * dst_stride + r;
      for (int half = 0; half < 2; ++half) {
        const auto* pairs = half == 0 ? low : high;
        const auto first = hn::BitCast(d64, hn::InterleaveLower(d32, pairs[0], pairs[1]));
        const auto second = hn::BitCast(d64, hn::InterleaveUpper(d32, pairs[0], pairs[1]));
        const auto third = hn::BitCast(d64, hn::InterleaveLower(d32, pairs[2], pairs[3]));
        const auto fourth = hn::BitCast(d64, hn::InterleaveUpper(d32, pairs[2], pairs[3]));
        uint16_t* out = to + 4 * half * dst_stride;
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, first, third)), d, out);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, first, third)), d, out + dst_stride);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, second, fourth)), d,
                   out + 2 * dst_stride);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, second, fourth)), d,
                   out + 3 * dst_stride);
      }
    }
    for (; c < cols; ++c) {
      for (int64_t i = r; i < r + 8; ++i) dst[c * dst_stride + i] = src[i * src_stride + c];
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) dst[c * dst_stride + r] = src[r * src_stride + c];
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
