// Small fp32 matrix products for attention's panels and Winograd's convolution: operands where they
// lie, nothing is copied.
//
// C[m, n] = sum over k of A(m, k) * B[k, n], with n running over vectors: B's rows are contiguous,
// A's elements are broadcast and may lie anywhere. An 8x2 tile of C stays in registers (4x2 with
// AVX2's sixteen), which suffices to keep both FMA units busy: sums over k are as long as a head is
// wide, a row is long or a map has channels. Written by hand because ATen exports no fp32 product
// of raw memory.
#if defined(FOVEA_KERNELS_SIMD_MULTIPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_SIMD_MULTIPLY_INL_H_
#undef FOVEA_KERNELS_SIMD_MULTIPLY_INL_H_
#else
#define FOVEA_KERNELS_SIMD_MULTIPLY_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of C in a register tile; row counts that it divides are fastest.
inline constexpr int kRegisterRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;

struct Factors {
  const float* a;  // A(m, k) = a[m * a_row + k * a_depth]
  int64_t a_row;
  int64_t a_depth;
  const float* b;  // B[k, n] = b[k * b_row + n]
  int64_t b_row;
  int64_t depth;  // how many k
};

// One register tile: kRows x kVectors vectors of C, rows below `keep` stored. `row_factors`, if not
// null, multiplies row m by row_factors[m]. kPartial: the (one) vector has only `columns` elements,
// and no more are read or written.
template <int kRows, int kVectors, bool kPartial>
HWY_INLINE void MultiplyTile(const Factors& f, float* c, int64_t c_row, int64_t keep,
                             const float* row_factors, int64_t columns) {
  static_assert(!kPartial || kVectors == 1, "only the last vector is partial");
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  const auto mask = hn::FirstN(d, kPartial ? columns : lanes);

  hn::Vec<decltype(d)> sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) sum[m][v] = hn::Zero(d);
  }
  const float* a = f.a;
  const float* b = f.b;
  for (int64_t k = 0; k < f.depth; ++k, a += f.a_depth, b += f.b_row) {
    hn::Vec<decltype(d)> row[kVectors];
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kPartial) {
        row[v] = hn::MaskedLoad(mask, d, b);
      } else {
        row[v] = hn::LoadU(d, b + v * lanes);
      }
    }
    HWY_UNROLL(8)
    for (int m = 0; m < kRows; ++m) {
      const auto factor = hn::Set(d, a[m * f.a_row]);
      HWY_UNROLL(2)
      for (int v = 0; v < kVectors; ++v) sum[m][v] = hn::MulAdd(factor, row[v], sum[m][v]);
    }
  }
  HWY_UNROLL(8)
  for (int m = 0; m < kRows; ++m) {
    if (m >= keep) break;
    HWY_UNROLL(2)
    for (int v = 0; v < kVectors; ++v) {
      auto out = sum[m][v];
      if (row_factors != nullptr) out = hn::Mul(out, hn::Set(d, row_factors[m]));
      if constexpr (kPartial) {
        hn::BlendedStore(out, mask, d, c + m * c_row);
      } else {
        hn::StoreU(out, d, c + m * c_row + v * lanes);
      }
    }
  }
}

// `rows` x (`kVectors` vectors) of C. Reads of A go no further than `rows`.
template <int kVectors>
HWY_INLINE void MultiplyRows(Factors f, int64_t rows, float* c, int64_t c_row) {
  int64_t m = 0;
  for (; m + kRegisterRows <= rows; m += kRegisterRows) {
    MultiplyTile<kRegisterRows, kVectors, false>(f, c + m * c_row, c_row, kRegisterRows, nullptr,
                                                 0);
    f.a += kRegisterRows * f.a_row;
  }
  if (kRegisterRows > 4 && m + 4 <= rows) {
    MultiplyTile<4, kVectors, false>(f, c + m * c_row, c_row, 4, nullptr, 0);
    f.a += 4 * f.a_row;
    m += 4;
  }
  for (; m < rows; ++m) {
    MultiplyTile<1, kVectors, false>(f, c + m * c_row, c_row, 1, nullptr, 0);
    f.a += f.a_row;
  }
}

// The first `rows` rows of C, `columns` wide, row m times row_factors[m]. A must be readable up to
// the next multiple of kRegisterRows rows.
HWY_INLINE void MultiplyColumns(const Factors& factors, int64_t rows, int64_t columns, float* c,
                                int64_t c_row, const float* row_factors) {
  const int64_t lanes = hn::Lanes(hn::ScalableTag<float>());
  for (int64_t m = 0; m < rows; m += kRegisterRows) {
    Factors f = factors;
    f.a += m * f.a_row;
    float* to = c + m * c_row;
    const int64_t keep = rows - m;
    int64_t n = 0;
    for (; n + 2 * lanes <= columns; n += 2 * lanes, f.b += 2 * lanes) {
      MultiplyTile<kRegisterRows, 2, false>(f, to + n, c_row, keep, row_factors + m, 0);
    }
    for (; n + lanes <= columns; n += lanes, f.b += lanes) {
      MultiplyTile<kRegisterRows, 1, false>(f, to + n, c_row, keep, row_factors + m, 0);
    }
    if (n < columns) {
      MultiplyTile<kRegisterRows, 1, true>(f, to + n, c_row, keep, row_factors + m, columns - n);
    }
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
