// Queries, keys and values as AMX's tiles multiply them, and weights: bf16, or fp32 in three bf16
// parts. Compiled once per instruction set.
#if defined(FOVEA_KERNELS_ATTENTION_CPU_TILE_OPERANDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_ATTENTION_CPU_TILE_OPERANDS_INL_H_
#undef FOVEA_KERNELS_ATTENTION_CPU_TILE_OPERANDS_INL_H_
#else
#define FOVEA_KERNELS_ATTENTION_CPU_TILE_OPERANDS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/attention/shared/cpu_tiles_layout.h"
#include "kernels/attention/shared/cpu_token_sets-inl.h"
#include "kernels/attention/shared/cpu_weights-inl.h"
#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

using attend::TilesLayout;
using simd::kRegister;
using simd::kSide;
using simd::kStep;

using VU = hn::Vec<hn::RebindToUnsigned<DF>>;

// The larger of |a| and |b|, without what is NaN.
HWY_INLINE VF LargerMagnitude(VF a, VF b) {
  VF larger;
  asm("vrangeps $11, %2, %1, %0" : "=v"(larger.raw) : "v"(a.raw), "v"(b.raw));
  return larger;
}

HWY_INLINE bool IsInfinite(VF magnitudes) {
  const DF d;
  return !hn::AllFalse(d, hn::Eq(magnitudes, hn::Set(d, kInfinity)));
}

// The upper halves of x as fp32, which x loses.
HWY_INLINE VF CutPart(VF& x) {
  const hn::RebindToUnsigned<DF> du;
  const VF part = hn::BitCast(DF(), hn::And(hn::BitCast(du, x), hn::Set(du, 0xFFFF0000u)));
  x = hn::Sub(x, part);
  return part;
}

// Two vectors in parts, cut off and not rounded, so that three are exact.
template <int kParts>
HWY_INLINE void StoreParts(VF first, VF second, uint16_t* to, int64_t plane) {
  if constexpr (kParts == 3) {
    for (int part = 0; part < 2; ++part, to += plane) {
      const VF cut = CutPart(first);
      StoreBf16(cut, CutPart(second), to);
    }
  }
  StoreBf16(first, second, to);
}

// The first `count` lanes of a row; the others zero.
HWY_INLINE VF LoadLanes(const float* from, int64_t count) {
  const DF d;
  if (count >= kLanes) return hn::LoadU(d, from);
  return count > 0 ? hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, from)
                   : hn::Zero(d);
}
HWY_INLINE VF LoadLanes(const uint16_t* from, int64_t count) {
  if (count >= kLanes) return LoadBf16(from);
  HWY_ALIGN uint16_t lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return LoadBf16(lanes);
}

// Rows in parts, zero up to layout.depth columns and `height` rows. Whether there is an infinity
// that has no parts.
template <class T>
HWY_INLINE bool TakeRows(const T* from, int64_t stride, int64_t count, int64_t columns,
                         int64_t height, const TilesLayout& layout, uint16_t* to) {
  constexpr int kParts = sizeof(T) == 4 ? 3 : 1;
  VF magnitudes = hn::Zero(DF());
  for (int64_t r = 0; r < height; ++r, from += stride, to += layout.query_stride) {
    const int64_t lanes = r < count ? columns : 0;
    for (int64_t c = 0; c < layout.depth; c += 2 * kLanes) {
      if constexpr (kParts == 1) {
        const hn::ScalableTag<uint16_t> dh;
        if (lanes - c >= 2 * kLanes) {
          hn::StoreU(hn::LoadU(dh, from + c), dh, to + c);
          continue;
        }
      }
      const VF first = LoadLanes(from + c, lanes - c);
      const VF second = LoadLanes(from + c + kLanes, lanes - c - kLanes);
      magnitudes = LargerMagnitude(magnitudes, LargerMagnitude(first, second));
      StoreParts<kParts>(first, second, to + c, layout.query_plane);
    }
  }
  return kParts == 3 && IsInfinite(magnitudes);
}

// A head's keys as columns: [keys / 16][depth / 32] registers of pairs of channels. `staged` has
// room for the rows of a register. Returns as TakeRows.
template <class T>
HWY_INLINE bool TakeKeyColumns(const T* from, const TokenSetsJob& job, const TilesLayout& layout,
                               uint16_t* staged, uint16_t* to) {
  const int64_t stride = job.key.token;
  bool infinite = false;
  for (int64_t key = 0; key < layout.keys; key += kRegister) {
    const int64_t left = job.keys - key;
    infinite |= TakeRows(from + key * stride, stride, left < kRegister ? left : kRegister, job.dim,
                         kRegister, layout, staged);
    for (int64_t part = 0; part < layout.parts; ++part) {
      uint16_t* const out = to + part * layout.key_plane + key * layout.depth;
      Transpose32(reinterpret_cast<const uint32_t*>(staged + part * layout.query_plane),
                  layout.query_stride / 2, kRegister, layout.depth / 2,
                  reinterpret_cast<uint32_t*>(out), kRegister);
    }
  }
  return infinite;
}

// A head's values as columns: [keys / 32][channels / 16] registers of pairs of keys. Returns as
// TakeRows.
template <class T>
HWY_INLINE bool TakeValueColumns(const T* from, const TokenSetsJob& job, const TilesLayout& layout,
                                 uint16_t* to) {
  constexpr int kParts = sizeof(T) == 4 ? 3 : 1;
  const hn::RebindToUnsigned<DF> du;
  const int64_t stride = job.value.token;
  VF magnitudes = hn::Zero(DF());
  for (int64_t key = 0; key < layout.keys; key += 2, from += 2 * stride) {
    uint16_t* const row = to + key / kStep * kStep * layout.value_depth + key % kStep * kRegister;
    const int64_t even_lanes = key < job.keys ? job.value_dim : 0;
    const int64_t odd_lanes = key + 1 < job.keys ? job.value_dim : 0;
    for (int64_t c = 0; c < layout.value_depth; c += kRegister) {
      VF even = LoadLanes(from + c, even_lanes - c);
      VF odd = LoadLanes(from + stride + c, odd_lanes - c);
      magnitudes = LargerMagnitude(magnitudes, LargerMagnitude(even, odd));
      for (int part = 0; part < kParts; ++part) {
        // The last part is no more than a bf16 has.
        const VU first = hn::BitCast(du, part + 1 < kParts ? CutPart(even) : even);
        const VU second = hn::BitCast(du, part + 1 < kParts ? CutPart(odd) : odd);
        hn::StoreU(hn::OrAnd(hn::ShiftRight<16>(first), second, hn::Set(du, 0xFFFF0000u)), du,
                   reinterpret_cast<uint32_t*>(row + c * kStep + part * layout.value_plane));
      }
    }
  }
  return kParts == 3 && IsInfinite(magnitudes);
}

#endif  // AVX-512

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#endif  // toggle
