// Vectors of rows, and what is done to products when they become rows (cpu_rows.h), compiled once
// per instruction set.
#if defined(FOVEA_KERNELS_LINEAR_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_LINEAR_CPU_ROWS_INL_H_
#undef FOVEA_KERNELS_LINEAR_CPU_ROWS_INL_H_
#else
#define FOVEA_KERNELS_LINEAR_CPU_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/linear/cpu_rows.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/simd/amx_layout.h"
#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/gelu-inl.h"
#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using rows::Activation;
using rows::BlockTerms;
using rows::ConstRows;
using rows::NormTerms;
using rows::Rows;
using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;

inline constexpr int64_t kLanes = HWY_LANES(float);

// One vector of fp32 or bf16.
HWY_INLINE VF Load(const float* from) { return hn::LoadU(DF(), from); }
HWY_INLINE VF Load(const uint16_t* from) { return LoadBf16(from); }
HWY_INLINE void Store(VF x, float* to) { hn::StoreU(x, DF(), to); }

// To bf16 and back. Rows of bf16 are there only where bf16 products are (linear_chain.h): with
// AVX-512, the processor then converts by itself, to nearest and ties to even. Highway 1.0 does not
// know how.
using VH = hn::Vec<hn::Rebind<uint16_t, DF>>;
HWY_INLINE VH Rounded(VF x) {
#if HWY_TARGET == HWY_AVX3
  VH rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded.raw) : "v"(x.raw));
  return rounded;
#else
  const hn::RebindToSigned<DF> di;
  return hn::DemoteTo(hn::Rebind<uint16_t, DF>(),
                      hn::BitCast(di, hn::ShiftRight<16>(RoundToBf16(DF(), x))));
#endif
}
HWY_INLINE VF Widened(VH x) {
  return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<DF>(), x)));
}
HWY_INLINE void Store(VF x, uint16_t* to) {
  hn::StoreU(Rounded(x), hn::Rebind<uint16_t, DF>(), to);
}

// The first `count` lanes; the others zero.
template <class T>
HWY_INLINE VF LoadSome(const T* from, int64_t count) {
  T lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return Load(lanes);
}
template <class T>
HWY_INLINE void StoreSome(VF x, int64_t count, T* to) {
  T lanes[kLanes];
  Store(x, lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// What of x the next part takes, as fp32, rounded by integers, which products leave units for; x
// loses it.
HWY_INLINE VF TakePart(VF& x) {
  const hn::RebindToUnsigned<DF> du;
  const auto rounded = hn::Add(hn::BitCast(du, x), hn::Set(du, 0x8000u));
  const VF part = hn::BitCast(DF(), hn::And(rounded, hn::Set(du, 0xFFFF0000u)));
  x = hn::Sub(x, part);
  return part;
}

// x as the sum of three bf16, each what the one before leaves, rounded: largest first.
HWY_INLINE void StoreParts(VF x, uint16_t* to, int64_t plane) {
  const hn::Rebind<uint16_t, DF> dh;
  hn::StoreU(Rounded(TakePart(x)), dh, to);
  hn::StoreU(Rounded(TakePart(x)), dh, to + plane);
  hn::StoreU(Rounded(x), dh, to + 2 * plane);
}

#if HWY_TARGET == HWY_AVX3
// The same of two vectors, which the processor rounds in the time of one.
HWY_INLINE void StoreParts(VF first, VF second, uint16_t* to, int64_t plane) {
  for (int part = 0; part < 2; ++part, to += plane) {
    const VF low = TakePart(first);
    StoreBf16(low, TakePart(second), to);
  }
  StoreBf16(first, second, to);
}
#endif

HWY_INLINE void StorePartsOfSome(VF x, int64_t count, uint16_t* to, int64_t plane) {
  uint16_t parts[3 * kLanes];
  StoreParts(x, parts, kLanes);
  for (int64_t part = 0; part < 3; ++part) {
    for (int64_t i = 0; i < count; ++i) to[part * plane + i] = parts[part * kLanes + i];
  }
}

// Of the terms of all rows and columns, those of a tile of AMX's whose first product is at (row,
// column). `tile` is a copy of `terms` that other tiles may have had.
template <class T>
HWY_INLINE void SetTile(const BlockTerms& terms, const PackedMatrix& matrix, int64_t row,
                        int64_t column, BlockTerms& tile) {
  tile.count = HWY_MIN(terms.count - row, simd::kSide);
  tile.columns = HWY_MIN(matrix.out() - column, simd::kSide);
  tile.bias = matrix.bias() + column;
  if (terms.residual_scale != nullptr) tile.residual_scale = terms.residual_scale + column;
  if (terms.residual.data != nullptr) {
    tile.residual.data =
        static_cast<const T*>(terms.residual.data) + row * terms.residual.stride + column;
  }
}

template <Activation kActivation, bool kBf16>
HWY_INLINE VF Activate(const BlockTerms& terms, VF x) {
  const DF d;
  if constexpr (kActivation == Activation::kGelu) {
    if constexpr (kBf16) return GeluForBf16(d, x);
    return Gelu(d, x);
  }
  // Not Max, which loses NaN.
  if constexpr (kActivation == Activation::kRelu) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
  if constexpr (kActivation == Activation::kStarRelu) {
    const VF rectified = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
    return hn::MulAdd(hn::Mul(rectified, rectified), hn::Set(d, terms.star_scale),
                      hn::Set(d, terms.star_bias));
  }
  return x;
}

enum class Adds { kNothing, kRows, kScaledRows };

// Rows [begin, end) of a block.
template <class T, Activation kActivation, Adds kAdds, int64_t kWidth, bool kSplit>
HWY_INLINE void FinishRows(const BlockTerms& terms, const Rows& to, int64_t begin, int64_t end) {
  constexpr int64_t kVectors = kWidth / kLanes;
  const DF d;
  const int64_t whole = terms.columns / kLanes * kLanes, rest = terms.columns - whole;
  for (int64_t r = begin; r < end; ++r) {
    const float* const products = terms.products + r * terms.products_stride;
    const T* const residual =
        static_cast<const T*>(terms.residual.data) + r * terms.residual.stride;
    T* const out = static_cast<T*>(to.data) + r * to.stride;
    uint16_t* const parts = static_cast<uint16_t*>(to.data) + r * to.stride;
    const auto finished = [&](int64_t c, VF add) HWY_ATTR {
      const VF y = Activate<kActivation, sizeof(T) == 2>(
          terms, hn::Add(hn::LoadU(d, products + c), hn::LoadU(d, terms.bias + c)));
      if constexpr (kAdds == Adds::kNothing) return y;
      if constexpr (kAdds == Adds::kRows) return hn::Add(y, add);
      const bool part = c == whole;
      const VF scale =
          part ? LoadSome(terms.residual_scale + c, rest) : Load(terms.residual_scale + c);
      return hn::MulAdd(add, scale, y);
    };
    const auto store = [&](int64_t c) HWY_ATTR {
      const VF y = finished(c, kAdds == Adds::kNothing ? hn::Zero(d) : Load(residual + c));
      if constexpr (kSplit) {
        StoreParts(y, parts + c, to.plane);
      } else {
        Store(y, out + c);
      }
    };
#if HWY_TARGET == HWY_AVX3
    if (kSplit && terms.columns == kWidth) {
      HWY_UNROLL(4)
      for (int64_t c = 0; c < kWidth; c += 2 * kLanes) {
        const VF first = finished(c, hn::Zero(d));
        StoreParts(first, finished(c + kLanes, hn::Zero(d)), parts + c, to.plane);
      }
      continue;
    }
#endif
    if (terms.columns == kWidth) {
      HWY_UNROLL(8)
      for (int64_t v = 0; v < kVectors; ++v) store(v * kLanes);
      continue;
    }
    for (int64_t c = 0; c < whole; c += kLanes) store(c);
    if (rest > 0) {
      const VF add = kAdds == Adds::kNothing ? hn::Zero(d) : LoadSome(residual + whole, rest);
      if constexpr (kSplit) {
        StorePartsOfSome(finished(whole, add), rest, parts + whole, to.plane);
      } else {
        StoreSome(finished(whole, add), rest, out + whole);
      }
    }
  }
}

// visit.Run<type, activation, adds>() with those of `terms`.
template <class T, Activation kActivation, class Visit>
HWY_INLINE void WithAdds(const BlockTerms& terms, const Visit& visit) {
  if (terms.residual.data == nullptr) {
    visit.template Run<T, kActivation, Adds::kNothing>();
  } else if (terms.residual_scale == nullptr) {
    visit.template Run<T, kActivation, Adds::kRows>();
  } else {
    visit.template Run<T, kActivation, Adds::kScaledRows>();
  }
}
template <class T, class Visit>
HWY_INLINE void WithTerms(const BlockTerms& terms, const Visit& visit) {
  switch (terms.activation) {
    case Activation::kNone:
      return WithAdds<T, Activation::kNone>(terms, visit);
    case Activation::kGelu:
      return WithAdds<T, Activation::kGelu>(terms, visit);
    case Activation::kRelu:
      return WithAdds<T, Activation::kRelu>(terms, visit);
    case Activation::kStarRelu:
      return WithAdds<T, Activation::kStarRelu>(terms, visit);
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
