#include "kernels/linear/cpu_int8.h"

#include <cstdint>
#include <cstring>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/cpu_int8.cc"
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
using rows::Int8Rows;

inline constexpr uint32_t kInfinityBits = 0x7F800000;
inline constexpr float kLeast = 1e-30f, kMost = 127.0f;

HWY_INLINE float FloatOf(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
HWY_INLINE float Nan() { return FloatOf(0x7FC00000); }

// |x|, as integers that are ordered as the numbers are, NaN above infinity.
HWY_INLINE VI Magnitude(VF x) { return hn::BitCast(DI(), hn::Abs(x)); }
HWY_INLINE uint32_t LargestOf(VI magnitudes) {
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(DI(), magnitudes)));
}

// The bits of the largest magnitude among `columns` of a row; bf16 without widening it.
HWY_INLINE uint32_t LargestOf(const uint16_t* row, int64_t columns) {
  const hn::ScalableTag<uint16_t> d;
  const int64_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(d, uint16_t{0x7FFF});
  auto largest = hn::Zero(d);
  int64_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    largest = hn::Max(largest, hn::And(hn::LoadU(d, row + c), mask));
  }
  // Of 16-bit lanes Highway has no largest.
  uint16_t all[HWY_LANES(uint16_t)];
  hn::StoreU(largest, d, all);
  uint32_t bits = 0;
  for (const uint16_t one : all) bits = one > bits ? one : bits;
  for (; c < columns; ++c) {
    const uint32_t one = row[c] & 0x7FFFu;
    bits = one > bits ? one : bits;
  }
  return bits << 16;
}
HWY_INLINE uint32_t LargestOf(const float* row, int64_t columns) {
  const int64_t whole = columns / kLanes * kLanes;
  VI largest = hn::Zero(DI());
  for (int64_t c = 0; c < whole; c += kLanes) {
    largest = hn::Max(largest, Magnitude(Load(row + c)));
  }
  if (whole < columns) {
    largest = hn::Max(largest, Magnitude(LoadSome(row + whole, columns - whole)));
  }
  return LargestOf(largest);
}

// What a row is multiplied by to become integers, and its scale.
struct RowScale {
  float inverse, scale;
};
HWY_INLINE RowScale ScaleOf(uint32_t largest_bits) {
  if (largest_bits >= kInfinityBits) return {0, Nan()};
  const float largest = FloatOf(largest_bits);
  if (largest < kLeast) return {0, 0};
  return {kMost / largest, largest * (1 / kMost)};
}

template <class T>
HWY_INLINE void QuantiseRow(const T* row, int64_t columns, const float* inverse, int8_t* to,
                            float* scale) {
  const DF d;
  const int64_t whole = columns / kLanes * kLanes, rest = columns - whole;
  if (inverse == nullptr) {
    const RowScale by = ScaleOf(LargestOf(row, columns));
    const VF factor = hn::Set(d, by.inverse);
    for (int64_t c = 0; c < whole; c += kLanes) StoreInt8(hn::Mul(Load(row + c), factor), to + c);
    if (rest > 0) {
      int8_t lanes[kLanes];
      StoreInt8(hn::Mul(LoadSome(row + whole, rest), factor), lanes);
      std::memcpy(to + whole, lanes, static_cast<size_t>(rest));
    }
    *scale = by.scale;
    return;
  }
  VI largest = hn::Zero(DI());
  for (int64_t c = 0; c < whole; c += kLanes) {
    const VF x = Load(row + c);
    largest = hn::Max(largest, Magnitude(x));
    StoreClipped(hn::Mul(x, Load(inverse + c)), to + c);
  }
  if (rest > 0) {
    const VF x = LoadSome(row + whole, rest);
    largest = hn::Max(largest, Magnitude(x));
    int8_t lanes[kLanes];
    StoreClipped(hn::Mul(x, LoadSome(inverse + whole, rest)), lanes);
    std::memcpy(to + whole, lanes, static_cast<size_t>(rest));
  }
  *scale = LargestOf(largest) > kInfinityBits ? Nan() : 1;
}

// Of rows that are normalised: (x - mean) * factor.
template <int kRows>
struct Moments {
  VF mean[kRows], factor[kRows];
};

// In two passes. Rows at a time, whose sums do not wait for each other.
template <int kRows, class T>
HWY_INLINE Moments<kRows> MomentsOf(const T* const (&rows)[kRows], int64_t columns, float epsilon) {
  const DF d;
  const int64_t whole = columns / kLanes * kLanes, rest = columns - whole;
  const VF per_column = hn::Set(d, 1.0f / static_cast<float>(columns));
  Moments<kRows> found;
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) found.mean[i] = found.factor[i] = hn::Zero(d);
  for (int64_t c = 0; c < whole; c += kLanes) {
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) found.mean[i] = hn::Add(found.mean[i], Load(rows[i] + c));
  }
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    if (rest > 0) found.mean[i] = hn::Add(found.mean[i], LoadSome(rows[i] + whole, rest));
    found.mean[i] = hn::Mul(hn::SumOfLanes(d, found.mean[i]), per_column);
  }
  for (int64_t c = 0; c < whole; c += kLanes) {
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) {
      const VF centred = hn::Sub(Load(rows[i] + c), found.mean[i]);
      found.factor[i] = hn::MulAdd(centred, centred, found.factor[i]);
    }
  }
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    if (rest > 0) {
      const VF centred =
          hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(rest)),
                             hn::Sub(LoadSome(rows[i] + whole, rest), found.mean[i]));
      found.factor[i] = hn::MulAdd(centred, centred, found.factor[i]);
    }
    const VF variance = hn::Mul(hn::SumOfLanes(d, found.factor[i]), per_column);
    found.factor[i] = hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Add(variance, hn::Set(d, epsilon))));
  }
  return found;
}

#if HWY_TARGET == HWY_AVX3
// sums += pairs of products of bf16, in fp32.
HWY_INLINE void AddProducts(VF& sums, __m512i a, __m512i b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(a), "v"(b));
}

// In one pass of bf16's own products: the mean square less the square of the mean. Where that is
// small beside the latter, too few digits are left: by the two passes then.
template <int kRows>
HWY_INLINE Moments<kRows> MomentsOf(const uint16_t* const (&rows)[kRows], int64_t columns,
                                    float epsilon) {
  constexpr float kMostOfMean = 16;
  constexpr int64_t kPairs = 2 * kLanes;
  const DF d;
  const int64_t whole = columns / kPairs * kPairs, rest = columns - whole;
  const VF per_column = hn::Set(d, 1.0f / static_cast<float>(columns));
  const __m512i ones = _mm512_set1_epi16(0x3F80);
  VF sums[kRows], squares[kRows];
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) sums[i] = squares[i] = hn::Zero(d);
  for (int64_t c = 0; c < whole; c += kPairs) {
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) {
      const __m512i x = _mm512_loadu_si512(rows[i] + c);
      AddProducts(sums[i], x, ones);
      AddProducts(squares[i], x, x);
    }
  }
  Moments<kRows> found;
  bool digits = true;
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    if (rest > 0) {
      uint16_t last[kPairs] = {};
      for (int64_t c = 0; c < rest; ++c) last[c] = rows[i][whole + c];
      const __m512i x = _mm512_loadu_si512(last);
      AddProducts(sums[i], x, ones);
      AddProducts(squares[i], x, x);
    }
    const VF mean = hn::Mul(hn::SumOfLanes(d, sums[i]), per_column);
    const VF square = hn::Mul(mean, mean);
    const VF variance = hn::Sub(hn::Mul(hn::SumOfLanes(d, squares[i]), per_column), square);
    digits = digits && hn::AllTrue(d, hn::Le(square, hn::Mul(variance, hn::Set(d, kMostOfMean))));
    found.mean[i] = mean;
    found.factor[i] = hn::Div(hn::Set(d, 1.0f), hn::Sqrt(hn::Add(variance, hn::Set(d, epsilon))));
  }
  return digits ? found : MomentsOf<kRows, uint16_t>(rows, columns, epsilon);
}
#endif

// `kRows` rows; normalised once for the largest value and once more for the integers, which is less
// than to keep it.
template <int kRows, class T>
HWY_INLINE void QuantiseNormalised(const ConstRows& from, int64_t columns, const NormTerms& terms,
                                   const float* inverse, const Int8Rows& to) {
  const DF d;
  const int64_t whole = columns / kLanes * kLanes, rest = columns - whole;
  const T* rows[kRows];
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) rows[i] = static_cast<const T*>(from.data) + i * from.stride;
  const Moments<kRows> moments = MomentsOf<kRows>(rows, columns, terms.epsilon);
  VF factor[kRows], shift[kRows];
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    factor[i] = moments.factor[i];
    shift[i] = hn::Neg(hn::Mul(moments.mean[i], factor[i]));
  }
  // visit(i, c, y) for each vector y of each row, times `by` of its columns where that is not null.
  const auto for_normalised = [&](const float* by, const auto& visit) HWY_ATTR {
    const auto visit_vector = [&](int64_t c, VF weight, VF bias, const auto& load) HWY_ATTR {
      HWY_UNROLL(4)
      for (int i = 0; i < kRows; ++i) {
        visit(i, c, hn::MulAdd(hn::MulAdd(load(rows[i] + c), factor[i], shift[i]), weight, bias));
      }
    };
    for (int64_t c = 0; c < whole; c += kLanes) {
      VF weight = Load(terms.weight + c);
      VF bias = terms.bias != nullptr ? Load(terms.bias + c) : hn::Zero(d);
      if (by != nullptr) {
        weight = hn::Mul(weight, Load(by + c));
        bias = hn::Mul(bias, Load(by + c));
      }
      visit_vector(c, weight, bias, [](const T* at) HWY_ATTR { return Load(at); });
    }
    if (rest > 0) {
      VF weight = LoadSome(terms.weight + whole, rest);
      VF bias = terms.bias != nullptr ? LoadSome(terms.bias + whole, rest) : hn::Zero(d);
      if (by != nullptr) {
        weight = hn::Mul(weight, LoadSome(by + whole, rest));
        bias = hn::Mul(bias, LoadSome(by + whole, rest));
      }
      visit_vector(whole, weight, bias, [&](const T* at) HWY_ATTR { return LoadSome(at, rest); });
    }
  };
  const auto store_last = [&](VF y, int8_t* at) HWY_ATTR {
    int8_t lanes[kLanes];
    StoreClipped(y, lanes);
    std::memcpy(at, lanes, static_cast<size_t>(rest));
  };
  if (inverse != nullptr) {
    // What is not finite in a row is in its mean and its variance.
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) {
      const bool finite =
          LargestOf(hn::Max(Magnitude(shift[i]), Magnitude(factor[i]))) < kInfinityBits;
      to.scales[i] = finite ? 1 : Nan();
    }
    for_normalised(inverse, [&](int i, int64_t c, VF y) HWY_ATTR {
      int8_t* const at = to.data + i * to.stride + c;
      if (c == whole) return store_last(y, at);
      StoreClipped(y, at);
    });
    return;
  }
  VI largest[kRows];
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) largest[i] = hn::Zero(DI());
  for_normalised(nullptr, [&](int i, int64_t, VF y)
                              HWY_ATTR { largest[i] = hn::Max(largest[i], Magnitude(y)); });
  VF by_row[kRows];
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    const RowScale by = ScaleOf(LargestOf(largest[i]));
    by_row[i] = hn::Set(d, by.inverse);
    to.scales[i] = by.scale;
  }
  for_normalised(nullptr, [&](int i, int64_t c, VF y) HWY_ATTR {
    int8_t* const at = to.data + i * to.stride + c;
    const VF steps = hn::Mul(y, by_row[i]);
    if (c == whole) return store_last(steps, at);
    StoreInt8(steps, at);
  });
}

template <class T>
HWY_INLINE void QuantiseAll(const ConstRows& from, int64_t count, int64_t columns,
                            const NormTerms* norm, const float* inverse, const Int8Rows& to) {
  const auto row = [&](int64_t r)
                       HWY_ATTR { return static_cast<const T*>(from.data) + r * from.stride; };
  if (norm == nullptr) {
    for (int64_t r = 0; r < count; ++r) {
      QuantiseRow(row(r), columns, inverse, to.data + r * to.stride, to.scales + r);
    }
    return;
  }
  const auto out = [&](int64_t r) HWY_ATTR {
    return Int8Rows{to.data + r * to.stride, to.stride, to.scales + r};
  };
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) {
    QuantiseNormalised<4, T>({row(r), from.stride}, columns, *norm, inverse, out(r));
  }
  for (; r < count; ++r) {
    QuantiseNormalised<1, T>({row(r), from.stride}, columns, *norm, inverse, out(r));
  }
}

void Quantise(bool bf16, const ConstRows& from, int64_t count, int64_t columns,
              const NormTerms* norm, const float* inverse, const Int8Rows& to) {
  if (bf16) {
    QuantiseAll<uint16_t>(from, count, columns, norm, inverse, to);
  } else {
    QuantiseAll<float>(from, count, columns, norm, inverse, to);
  }
}

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

void Quantise(bool bf16, const ConstRows& from, int64_t count, int64_t columns,
              const NormTerms* norm, const float* inverse, const Int8Rows& to) {
  FOVEA_SIMD_CHOOSE(Quantise)(bf16, from, count, columns, norm, inverse, to);
}

void FinishInt8(bool bf16, const Int8Terms& terms, const Rows& to) {
  FOVEA_SIMD_CHOOSE(FinishInt8)(bf16, terms, to);
}

void MultiplyInt8(const ConstInt8Rows& rows, int64_t count, const PackedMatrix& matrix,
                  int64_t block, int32_t* products) {
  FOVEA_SIMD_CHOOSE(MultiplyInt8)(rows, count, matrix, block, products);
}

}  // namespace fovea::kernels::rows
#endif  // HWY_ONCE
