// Vectors in 8 bits, and what is done to products of them when they become rows (cpu_int8.h),
// compiled once per instruction set.
#if defined(FOVEA_KERNELS_LINEAR_CPU_INT8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_LINEAR_CPU_INT8_INL_H_
#undef FOVEA_KERNELS_LINEAR_CPU_INT8_INL_H_
#else
#define FOVEA_KERNELS_LINEAR_CPU_INT8_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "kernels/linear/cpu_int8.h"
#include "kernels/linear/cpu_rows-inl.h"
#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using rows::Int8Terms;
using DI = hn::RebindToSigned<DF>;
using VI = hn::Vec<DI>;

// x, which is no larger than 127.5, rounded; what is under -128 becomes that.
HWY_INLINE void StoreInt8(VF x, int8_t* to) {
#if HWY_TARGET == HWY_AVX3
  // Highway would look for what overflows 32 bits first, and shuffle.
  VI rounded;
  asm("vcvtps2dq %1, %0" : "=v"(rounded.raw) : "v"(x.raw));
  hn::Vec128<int8_t> narrow;
  asm("vpmovsdb %1, %0" : "=v"(narrow.raw) : "v"(rounded.raw));
  hn::StoreU(narrow, hn::Full128<int8_t>(), to);
#else
  const hn::Rebind<int8_t, DF> d8;
  hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(x)), d8, to);
#endif
}
HWY_INLINE void StoreClipped(VF x, int8_t* to) { StoreInt8(hn::Min(x, hn::Set(DF(), 127.0f)), to); }

// GELU whose result is quantised, with an error of 3.9e-4 at most.
HWY_INLINE VF GeluForInt8(VF x) {
  const DF d;
#if HWY_TARGET == HWY_AVX3
  return GeluForBf16(d, x);  // takes no longer
#else
  // x * Phi(x), Phi(x) - 1/2 as x times a polynomial of x^2, fitted so that the largest error is
  // least; x or 0 beyond +-3.6, but for 7e-5 of x.
  constexpr float kEnd = 3.6f, kSquare = kEnd * kEnd;
  const VF near = hn::Max(hn::Min(x, hn::Set(d, kEnd)), hn::Set(d, -kEnd));
  const VF t = hn::Mul(near, near);
  constexpr float k1 = 1 / kSquare, k2 = k1 / kSquare, k3 = k2 / kSquare, k4 = k3 / kSquare,
                  k5 = k4 / kSquare;
  VF p = hn::Set(d, -0x1.a0c318p-3f * k5);
  p = hn::MulAdd(p, t, hn::Set(d, 0x1.a7ae02p-1f * k4));
  p = hn::MulAdd(p, t, hn::Set(d, -0x1.6a7706p+0f * k3));
  p = hn::MulAdd(p, t, hn::Set(d, 0x1.5a03eep+0f * k2));
  p = hn::MulAdd(p, t, hn::Set(d, -0x1.a2b258p-1f * k1));
  p = hn::MulAdd(p, t, hn::Set(d, 0x1.966abep-2f));
  return hn::Mul(x, hn::MulAdd(near, p, hn::Set(d, 0.5f)));
#endif
}

// Two vectors side by side.
HWY_INLINE void StoreTwo(VF low, VF high, float* to) {
  Store(low, to);
  Store(high, to + kLanes);
}
HWY_INLINE void StoreTwo(VF low, VF high, uint16_t* to) {
#if HWY_TARGET == HWY_AVX3
  StoreBf16(low, high, to);
#else
  Store(low, to);
  Store(high, to + kLanes);
#endif
}

// Rows [begin, end) of a block. Factors of columns stay in registers, two vectors of them, while
// rows pass.
template <class T, Activation kActivation, Adds kAdds, int64_t kWidth, bool kQuantise>
HWY_INLINE void FinishInt8Rows(const Int8Terms& terms, const Rows& to, int64_t begin, int64_t end) {
  static_assert(!kQuantise || kAdds == Adds::kNothing);
  using Out = std::conditional_t<kQuantise, int8_t, T>;
  if (begin >= end) return;  // before the first tile there are no factors either
  const DF d;
  const BlockTerms& block = terms.block;
  const float *const scales = terms.column_scales, *const biases = block.bias;
  const float *const inverse = terms.inverse, *const added_scales = block.residual_scale;
  const float* const row_scales = terms.row_scales;
  const int64_t products_stride = terms.products_stride, stride = to.stride;
  const int64_t residual_stride = block.residual.stride, columns = block.columns;
  const int32_t* const products = terms.products;
  const T* const residual = static_cast<const T*>(block.residual.data);
  Out* const out = static_cast<Out*>(to.data);
  const auto finished = [&](int64_t r, int64_t c, VF scale, VF bias) HWY_ATTR {
    const VF factor = hn::Mul(hn::Set(d, row_scales[r]), scale);
    const VF product = hn::ConvertTo(d, hn::LoadU(DI(), products + r * products_stride + c));
    const VF y = hn::MulAdd(product, factor, bias);
    if constexpr (kActivation == Activation::kGelu) return GeluForInt8(y);
    return Activate<kActivation, sizeof(T) == 2>(block, y);
  };
  if (columns == kWidth) {
    for (int64_t c = 0; c < kWidth; c += 2 * kLanes) {
      VF scale[2], bias[2], other[2];
      HWY_UNROLL(2)
      for (int v = 0; v < 2; ++v) {
        const int64_t at = c + v * kLanes;
        scale[v] = Load(scales + at);
        bias[v] = Load(biases + at);
        if constexpr (kQuantise) other[v] = Load(inverse + at);
        if constexpr (kAdds == Adds::kScaledRows) other[v] = Load(added_scales + at);
      }
      for (int64_t r = begin; r < end; ++r) {
        VF y[2];
        HWY_UNROLL(2)
        for (int v = 0; v < 2; ++v) {
          const int64_t at = c + v * kLanes;
          y[v] = finished(r, at, scale[v], bias[v]);
          if constexpr (kQuantise) {
            StoreClipped(hn::Mul(y[v], other[v]), out + r * stride + at);
          } else if constexpr (kAdds != Adds::kNothing) {
            const VF add = Load(residual + r * residual_stride + at);
            if constexpr (kAdds == Adds::kRows) y[v] = hn::Add(y[v], add);
            if constexpr (kAdds == Adds::kScaledRows) y[v] = hn::MulAdd(add, other[v], y[v]);
          }
        }
        if constexpr (!kQuantise) StoreTwo(y[0], y[1], out + r * stride + c);
      }
    }
    return;
  }
  // The matrix' last columns: what is quantised has none that are not whole.
  if constexpr (!kQuantise) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < columns; c += kLanes) {
        const int64_t count = columns - c < kLanes ? columns - c : kLanes;
        VF y = finished(r, c, Load(scales + c), Load(biases + c));
        if constexpr (kAdds != Adds::kNothing) {
          const VF add = LoadSome(residual + r * residual_stride + c, count);
          if constexpr (kAdds == Adds::kRows) y = hn::Add(y, add);
          if constexpr (kAdds == Adds::kScaledRows) {
            y = hn::MulAdd(add, LoadSome(added_scales + c, count), y);
          }
        }
        StoreSome(y, count, out + r * stride + c);
      }
    }
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
