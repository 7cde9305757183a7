// Products of rows in 8 bits, by vectors, and what becomes of them.
#include <cstdint>
#include <cstring>

#include "kernels/linear/cpu_int8.h"
#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/cpu_int8_products.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear/cpu_int8-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using rows::ConstInt8Rows;

struct FinishAllInt8 {
  const Int8Terms& terms;
  const Rows& to;
  template <class T, Activation kActivation, Adds kAdds>
  HWY_INLINE void Run() const {
    if constexpr (kAdds == Adds::kNothing) {
      if (terms.inverse != nullptr) {
        return FinishInt8Rows<T, kActivation, kAdds, 64, /*kQuantise=*/true>(terms, to, 0,
                                                                             terms.block.count);
      }
    }
    FinishInt8Rows<T, kActivation, kAdds, 64, /*kQuantise=*/false>(terms, to, 0, terms.block.count);
  }
};

void FinishInt8(bool bf16, const Int8Terms& terms, const Rows& to) {
  if (bf16) {
    WithTerms<uint16_t>(terms.block, FinishAllInt8{terms, to});
  } else {
    WithTerms<float>(terms.block, FinishAllInt8{terms, to});
  }
}

// Four numbers of a row, in every lane.
HWY_INLINE VI FourOf(const int8_t* row) {
  int32_t four;
  std::memcpy(&four, row, sizeof(four));
  return hn::Set(DI(), four);
}

// sums of four products a lane, with VNNI: of weights that are 128 too large, without a sign.
struct VnniProducts {
  static constexpr bool kFlipped = true;
  using Rows = VI;
  using Weights = VI;
  HWY_INLINE static Rows Prepare(VI fours) { return fours; }
  HWY_INLINE static VI Add(VI sums, Weights weights, Rows rows) {
#if HWY_TARGET == HWY_AVX3
    asm("vpdpbusd %2, %1, %0" : "+v"(sums.raw) : "v"(weights.raw), "v"(rows.raw));
#endif
    return sums;
  }
};

// Without: even and odd numbers as 16 bits, whose products are summed in pairs.
struct PairProducts {
  static constexpr bool kFlipped = false;
  struct Pairs {
    hn::Vec<hn::RepartitionToNarrow<DI>> even, odd;
  };
  using Rows = Pairs;
  using Weights = Pairs;
  HWY_INLINE static Pairs Prepare(VI fours) {
    const auto pairs = hn::BitCast(hn::RepartitionToNarrow<DI>(), fours);
    return {hn::ShiftRight<8>(hn::ShiftLeft<8>(pairs)), hn::ShiftRight<8>(pairs)};
  }
  HWY_INLINE static VI Add(VI sums, const Pairs& weights, const Pairs& rows) {
    VI unused = hn::Zero(DI());
    sums = hn::ReorderWidenMulAccumulate(DI(), weights.even, rows.even, sums, unused);
    return hn::ReorderWidenMulAccumulate(DI(), weights.odd, rows.odd, sums, unused);
  }
};

// products [kRows, kVectors lanes].
template <class Products, int kRows, int kVectors>
HWY_INLINE void MultiplyTogether(const int8_t* rows, int64_t stride, const int8_t* weights,
                                 int64_t columns, int64_t depth, int32_t* products) {
  const DI d;
  VI sums[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    VI begin = hn::Zero(d);
    if constexpr (Products::kFlipped) {
      // 128 times the row's sum is too much.
      const hn::Repartition<int8_t, DI> d8;
      const VI ones = hn::BitCast(d, hn::Set(d8, int8_t{1}));
      for (int64_t k = 0; k < depth; k += 4 * kLanes) {
        begin = Products::Add(begin, ones, hn::BitCast(d, hn::LoadU(d8, rows + r * stride + k)));
      }
      begin = hn::Neg(hn::ShiftLeft<7>(hn::SumOfLanes(d, begin)));
    }
    for (int v = 0; v < kVectors; ++v) sums[r][v] = begin;
  }
  for (int64_t k = 0; k < depth; k += 4) {
    typename Products::Weights of[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      const hn::Repartition<int8_t, DI> d8;
      const VI fours = hn::BitCast(d, hn::LoadU(d8, weights + k * columns + 4 * v * kLanes));
      of[v] = Products::Prepare(fours);
    }
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const typename Products::Rows row = Products::Prepare(FourOf(rows + r * stride + k));
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Products::Add(sums[r][v], of[v], row);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sums[r][v], d, products + r * PackedMatrix::kBlock + v * kLanes);
    }
  }
}

// So many rows as there are registers for, with two vectors of columns.
inline constexpr int kTogether = HWY_TARGET == HWY_AVX3 ? 8 : 4;

template <class Products, int kVectors>
HWY_INLINE void MultiplyColumns(const ConstInt8Rows& rows, int64_t count, const int8_t* weights,
                                int64_t columns, int64_t depth, int32_t* products) {
  int64_t r = 0;
  const auto row = [&]() HWY_ATTR { return rows.data + r * rows.stride; };
  const auto to = [&]() HWY_ATTR { return products + r * PackedMatrix::kBlock; };
  for (; r + kTogether <= count; r += kTogether) {
    MultiplyTogether<Products, kTogether, kVectors>(row(), rows.stride, weights, columns, depth,
                                                    to());
  }
  for (; r < count; ++r) {
    MultiplyTogether<Products, 1, kVectors>(row(), rows.stride, weights, columns, depth, to());
  }
}

template <class Products>
HWY_INLINE void MultiplyBlock(const ConstInt8Rows& rows, int64_t count, const PackedMatrix& matrix,
                              int64_t block, int32_t* products) {
  const auto* const weights = static_cast<const int8_t*>(matrix.Block(block));
  const int64_t columns = matrix.Columns(block), depth = matrix.depth();
  int64_t c = 0;
  for (; c + 2 * kLanes <= columns; c += 2 * kLanes) {
    MultiplyColumns<Products, 2>(rows, count, weights + 4 * c, columns, depth, products + c);
  }
  if (c < columns) {
    MultiplyColumns<Products, 1>(rows, count, weights + 4 * c, columns, depth, products + c);
  }
}

void MultiplyInt8(const ConstInt8Rows& rows, int64_t count, const PackedMatrix& matrix,
                  int64_t block, int32_t* products) {
#if HWY_TARGET == HWY_AVX3
  if (matrix.flips_sign()) return MultiplyBlock<VnniProducts>(rows, count, matrix, block, products);
#endif
  MultiplyBlock<PairProducts>(rows, count, matrix, block, products);
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::rows {

void FinishInt8(bool bf16, const Int8Terms& terms, const Rows& to) {
  FOVEA_SIMD_CHOOSE(FinishInt8)(bf16, terms, to);
}

void MultiplyInt8(const ConstInt8Rows& rows, int64_t count, const PackedMatrix& matrix,
                  int64_t block, int32_t* products) {
  FOVEA_SIMD_CHOOSE(MultiplyInt8)(rows, count, matrix, block, products);
}

}  // namespace fovea::kernels::rows
#endif  // HWY_ONCE
