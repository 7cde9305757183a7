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

// GELU whose result is quantised: x * Phi(x), Phi(x) - 1/2 as x times a polynomial of x^2, fitted
// so that the largest error is least, 3.9e-4; x or 0 beyond +-3.6, but for 7e-5 of x.
HWY_INLINE VF GeluForInt8(VF x) {
  const DF d;
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
}

// Rows [begin, end) of a block.
template <class T, Activation kActivation, Adds kAdds, int64_t kWidth, bool kQuantise>
HWY_INLINE void FinishInt8Rows(const Int8Terms& terms, const Rows& to, int64_t begin, int64_t end) {
  static_assert(!kQuantise || kAdds == Adds::kNothing);
  const DF d;
  const BlockTerms& block = terms.block;
  const int64_t whole = block.columns / kLanes * kLanes, rest = block.columns - whole;
  for (int64_t r = begin; r < end; ++r) {
    const int32_t* const products = terms.products + r * terms.products_stride;
    const T* const residual =
        static_cast<const T*>(block.residual.data) + r * block.residual.stride;
    T* const out = static_cast<T*>(to.data) + r * to.stride;
    const VF row_scale = hn::Set(d, terms.row_scales[r]);
    const auto finished = [&](int64_t c, VF add) HWY_ATTR {
      const VF scale = hn::Mul(row_scale, hn::LoadU(d, terms.column_scales + c));
      VF y = hn::MulAdd(hn::ConvertTo(d, hn::LoadU(DI(), products + c)), scale,
                        hn::LoadU(d, block.bias + c));
      if constexpr (kActivation == Activation::kGelu) {
        y = GeluForInt8(y);
      } else {
        y = Activate<kActivation, sizeof(T) == 2>(block, y);
      }
      if constexpr (kAdds == Adds::kNothing) return y;
      if constexpr (kAdds == Adds::kRows) return hn::Add(y, add);
      const bool part = c == whole;
      const VF by =
          part ? LoadSome(block.residual_scale + c, rest) : Load(block.residual_scale + c);
      return hn::MulAdd(add, by, y);
    };
    const auto store = [&](int64_t c) HWY_ATTR {
      const VF y = finished(c, kAdds == Adds::kNothing ? hn::Zero(d) : Load(residual + c));
      if constexpr (kQuantise) {
        StoreClipped(hn::Mul(y, hn::LoadU(d, terms.inverse + c)),
                     static_cast<int8_t*>(to.data) + r * to.stride + c);
      } else {
        Store(y, out + c);
      }
    };
    if (block.columns == kWidth) {
      HWY_UNROLL(8)
      for (int64_t v = 0; v < kWidth / kLanes; ++v) store(v * kLanes);
      continue;
    }
    for (int64_t c = 0; c < whole; c += kLanes) store(c);
    if constexpr (!kQuantise) {
      if (rest > 0) {
        const VF add = kAdds == Adds::kNothing ? hn::Zero(d) : LoadSome(residual + whole, rest);
        StoreSome(finished(whole, add), rest, out + whole);
      }
    }
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
