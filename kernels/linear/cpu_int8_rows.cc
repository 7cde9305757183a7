// Quantises rows to 8 bits, normalised first where asked (cpu_int8.h).
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/linear/cpu_int8.h"
#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/cpu_int8_rows.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear/cpu_int8-inl.h"
#include "kernels/linear/cpu_moments-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

#if HWY_TARGET == HWY_AVX3
// sums += pairs of products of bf16, in fp32.
HWY_INLINE void AddProducts(VF& sums, __m512i a, __m512i b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sums.raw) : "v"(a), "v"(b));
}

// In one pass of bf16's own products: the mean square less the square of the mean. Where that is
// small beside the latter, too few digits are left: by the two passes then.
template <int kRows>
HWY_INLINE Moments<kRows> MomentsInOnePass(const uint16_t* const (&rows)[kRows], int64_t columns,
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
  return digits ? found : MomentsOf<kRows>(rows, columns, epsilon);
}
#endif

// In one pass where there is one.
template <int kRows, class T>
HWY_INLINE Moments<kRows> FasterMomentsOf(const T* const (&rows)[kRows], int64_t columns,
                                          float epsilon) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, uint16_t>) return MomentsInOnePass<kRows>(rows, columns, epsilon);
#endif
  return MomentsOf<kRows>(rows, columns, epsilon);
}

// Rows that are normalised, each vector as (x * factor + shift) * weight + bias.
template <int kRows, class T>
class NormalisedRows {
 public:
  HWY_INLINE NormalisedRows(const ConstRows& from, int64_t columns, const NormTerms& terms)
      : whole_(columns / kLanes * kLanes), rest_(columns - whole_), terms_(terms) {
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) rows_[i] = static_cast<const T*>(from.data) + i * from.stride;
    const Moments<kRows> moments = FasterMomentsOf<kRows>(rows_, columns, terms.epsilon);
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) {
      factor_[i] = moments.factor[i];
      shift_[i] = hn::Neg(hn::Mul(moments.mean[i], factor_[i]));
    }
  }

  // visit(i, c, y) for each vector y of each row, times `by` of its columns where that is not null.
  template <class Visit>
  HWY_INLINE void ForEach(const float* by, const Visit& visit) const {
    const DF d;
    const auto visit_vector = [&](int64_t c, VF weight, VF bias, const auto& load) HWY_ATTR {
      HWY_UNROLL(4)
      for (int i = 0; i < kRows; ++i) {
        visit(i, c,
              hn::MulAdd(hn::MulAdd(load(rows_[i] + c), factor_[i], shift_[i]), weight, bias));
      }
    };
    for (int64_t c = 0; c < whole_; c += kLanes) {
      VF weight = Load(terms_.weight + c);
      VF bias = terms_.bias != nullptr ? Load(terms_.bias + c) : hn::Zero(d);
      if (by != nullptr) {
        weight = hn::Mul(weight, Load(by + c));
        bias = hn::Mul(bias, Load(by + c));
      }
      visit_vector(c, weight, bias, [](const T* at) HWY_ATTR { return Load(at); });
    }
    if (rest_ > 0) {
      VF weight = LoadSome(terms_.weight + whole_, rest_);
      VF bias = terms_.bias != nullptr ? LoadSome(terms_.bias + whole_, rest_) : hn::Zero(d);
      if (by != nullptr) {
        weight = hn::Mul(weight, LoadSome(by + whole_, rest_));
        bias = hn::Mul(bias, LoadSome(by + whole_, rest_));
      }
      visit_vector(whole_, weight, bias, [&](const T* at) HWY_ATTR { return LoadSome(at, rest_); });
    }
  }

  // Whether all of a row was finite: what is not is in its mean and its variance.
  HWY_INLINE bool IsFinite(int i) const {
    return LargestOf(hn::Max(Magnitude(shift_[i]), Magnitude(factor_[i]))) < kInfinityBits;
  }

  // y of the columns from c on, rounded, where they lie; `clipped` above 127.
  template <bool kClipped>
  HWY_INLINE void Store(VF y, int64_t c, int8_t* row) const {
    if (c == whole_) {
      int8_t lanes[kLanes];
      StoreClipped(y, lanes);
      std::memcpy(row + c, lanes, static_cast<size_t>(rest_));
    } else if constexpr (kClipped) {
      StoreClipped(y, row + c);
    } else {
      StoreInt8(y, row + c);
    }
  }

 private:
  const int64_t whole_, rest_;
  const NormTerms& terms_;
  const T* rows_[kRows];
  VF factor_[kRows], shift_[kRows];
};

// `kRows` rows; normalised once for the largest value and once more for the integers, which is less
// than to keep it.
template <int kRows, class T>
HWY_INLINE void QuantiseNormalised(const ConstRows& from, int64_t columns, const NormTerms& terms,
                                   const float* inverse, const Int8Rows& to) {
  const DF d;
  const NormalisedRows<kRows, T> rows(from, columns, terms);
  if (inverse != nullptr) {
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) to.scales[i] = rows.IsFinite(i) ? 1 : Nan();
    rows.ForEach(inverse, [&](int i, int64_t c, VF y) HWY_ATTR {
      rows.template Store</*kClipped=*/true>(y, c, to.data + i * to.stride);
    });
    return;
  }
  VI largest[kRows];
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) largest[i] = hn::Zero(DI());
  rows.ForEach(nullptr, [&](int i, int64_t, VF y)
                            HWY_ATTR { largest[i] = hn::Max(largest[i], Magnitude(y)); });
  VF by_row[kRows];
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) {
    const RowScale by = ScaleOf(LargestOf(largest[i]));
    by_row[i] = hn::Set(d, by.inverse);
    to.scales[i] = by.scale;
  }
  rows.ForEach(nullptr, [&](int i, int64_t c, VF y) HWY_ATTR {
    rows.template Store</*kClipped=*/false>(hn::Mul(y, by_row[i]), c, to.data + i * to.stride);
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

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::rows {

void Quantise(bool bf16, const ConstRows& from, int64_t count, int64_t columns,
              const NormTerms* norm, const float* inverse, const Int8Rows& to) {
  FOVEA_SIMD_CHOOSE(Quantise)(bf16, from, count, columns, norm, inverse, to);
}

}  // namespace fovea::kernels::rows
#endif  // HWY_ONCE
