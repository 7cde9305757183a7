#include "kernels/linear/cpu_rows.h"

#include <cstdint>
#include <cstring>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/cpu_rows.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear/cpu_moments-inl.h"
#include "kernels/linear/cpu_rows-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// `kRows` rows at a time, whose sums do not wait for each other.
template <int kRows, class T>
HWY_INLINE void NormaliseTogether(const ConstRows& from, int64_t columns, const NormTerms& terms,
                                  const Rows& to) {
  const DF d;
  const int64_t whole = columns / kLanes * kLanes, rest = columns - whole;
  const T* rows[kRows];
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) rows[i] = static_cast<const T*>(from.data) + i * from.stride;
  const auto [mean, factor] = MomentsOf<kRows>(rows, columns, terms.epsilon);
  for (int64_t c = 0; c < columns; c += kLanes) {
    const bool part = c == whole;
    const VF weight = part ? LoadSome(terms.weight + c, rest) : Load(terms.weight + c);
    VF bias = hn::Zero(d);
    if (terms.bias != nullptr) bias = part ? LoadSome(terms.bias + c, rest) : Load(terms.bias + c);
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) {
      T* const out = static_cast<T*>(to.data) + i * to.stride + c;
      const VF x = part ? LoadSome(rows[i] + c, rest) : Load(rows[i] + c);
      const VF y = hn::MulAdd(hn::Mul(hn::Sub(x, mean[i]), factor[i]), weight, bias);
      if (part) {
        StoreSome(y, rest, out);
      } else {
        Store(y, out);
      }
    }
  }
}

template <class T>
HWY_INLINE void NormaliseRows(const ConstRows& from, int64_t count, int64_t columns,
                              const NormTerms& terms, const Rows& to) {
  const auto at = [&](int64_t r) HWY_ATTR {
    return ConstRows{static_cast<const T*>(from.data) + r * from.stride, from.stride};
  };
  const auto out = [&](int64_t r) HWY_ATTR {
    return Rows{static_cast<T*>(to.data) + r * to.stride, to.stride};
  };
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) NormaliseTogether<4, T>(at(r), columns, terms, out(r));
  for (; r < count; ++r) NormaliseTogether<1, T>(at(r), columns, terms, out(r));
}

void Normalise(bool bf16, const ConstRows& from, int64_t count, int64_t columns,
               const NormTerms& terms, const Rows& to) {
  if (bf16) {
    NormaliseRows<uint16_t>(from, count, columns, terms, to);
  } else {
    NormaliseRows<float>(from, count, columns, terms, to);
  }
}

struct FinishAll {
  const BlockTerms& terms;
  const Rows& to;
  template <class T, Activation kActivation, Adds kAdds>
  HWY_INLINE void Run() const {
    FinishRows<T, kActivation, kAdds, 64, /*kSplit=*/false>(terms, to, 0, terms.count);
  }
};

void Finish(bool bf16, const BlockTerms& terms, const Rows& to) {
  if (bf16) {
    WithTerms<uint16_t>(terms, FinishAll{terms, to});
  } else {
    WithTerms<float>(terms, FinishAll{terms, to});
  }
}

void Split(const ConstRows& from, int64_t count, int64_t columns, uint16_t* to, int64_t stride,
           int64_t plane) {
  const int64_t whole = columns / kLanes * kLanes, rest = columns - whole;
  for (int64_t r = 0; r < count; ++r) {
    const float* const row = static_cast<const float*>(from.data) + r * from.stride;
    uint16_t* const parts = to + r * stride;
    int64_t c = 0;
#if HWY_TARGET == HWY_AVX3
    for (; c + 2 * kLanes <= whole; c += 2 * kLanes) {
      StoreParts(Load(row + c), Load(row + c + kLanes), parts + c, plane);
    }
#endif
    for (; c < whole; c += kLanes) StoreParts(Load(row + c), parts + c, plane);
    if (rest > 0) StorePartsOfSome(LoadSome(row + whole, rest), rest, parts + whole, plane);
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::rows {

void Normalise(bool bf16, const ConstRows& from, int64_t count, int64_t columns,
               const NormTerms& terms, const Rows& to) {
  FOVEA_SIMD_CHOOSE(Normalise)(bf16, from, count, columns, terms, to);
}

void Finish(bool bf16, const BlockTerms& terms, const Rows& to) {
  FOVEA_SIMD_CHOOSE(Finish)(bf16, terms, to);
}

void Split(const ConstRows& from, int64_t count, int64_t columns, uint16_t* to, int64_t stride,
           int64_t plane) {
  FOVEA_SIMD_CHOOSE(Split)(from, count, columns, to, stride, plane);
}

}  // namespace fovea::kernels::rows
#endif  // HWY_ONCE
