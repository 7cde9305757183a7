// The arithmetic of a panel (cpu_panels.h): products with its keys, weights, products with its
// values.
//
// fp32 multiplies with simd/multiply-inl.h, S^T = K Q^T and out = S V straight into the output's
// rows. bf16 multiplies with oneDNN's bf16 kernels, out^T = V^T S^T, weights in pairs. Where the
// processor has no bf16 products, keys and values come widened to fp32.
#if defined(FOVEA_KERNELS_CPU_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_CPU_PANELS_INL_H_
#undef FOVEA_KERNELS_CPU_PANELS_INL_H_
#else
#define FOVEA_KERNELS_CPU_PANELS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/attention/shared/cpu_panels.h"
#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/multiply-inl.h"
#include "kernels/simd/targets.h"
#include "kernels/simd/transpose-inl.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using attend::Arithmetic;
using attend::Panel;

inline constexpr int64_t kLanes = HWY_LANES(float);

HWY_INLINE int64_t RoundUpToEven(int64_t n) { return (n + 1) / 2 * 2; }

// Lanes without a row of their own take the last one's values: as good as any, and never slower.
template <class T>
HWY_INLINE void RepeatLastRow(T* transposed, int64_t width, int64_t rows, int64_t columns) {
  if (rows == width) return;
  for (int64_t c = 0; c < columns; ++c) {
    T* lanes = transposed + c * width;
    for (int64_t r = rows; r < width; ++r) lanes[r] = lanes[rows - 1];
  }
}

// Rows of `words` (fp32, or pairs of bf16), `stride` words apart, to [words, panel.width].
HWY_INLINE void TransposeRows(const void* src, int64_t stride, const Panel& panel, int64_t words,
                              float* dst) {
  uint32_t* to = reinterpret_cast<uint32_t*>(dst);
  Transpose32(static_cast<const uint32_t*>(src), stride, panel.rows, words, to, panel.width);
  RepeatLastRow(to, panel.width, panel.rows, words);
}

// panel.query from its rows in the tensors' type, `stride` elements apart.
HWY_INLINE void TakeQueries(const void* rows, int64_t stride, const Panel& panel) {
  switch (panel.arithmetic) {
    case Arithmetic::kFp32:
      TransposeRows(rows, stride, panel, panel.depth, panel.query);
      break;
    case Arithmetic::kBf16Gemm:
      TransposeRows(rows, stride / 2, panel, panel.depth / 2, panel.query);
      break;
    case Arithmetic::kWidenedBf16:
      // The widened rows rest where the output will be.
      for (int64_t r = 0; r < panel.rows; ++r) {
        Bf16ToFp32(static_cast<const uint16_t*>(rows) + r * stride, panel.depth,
                   panel.output + r * panel.depth);
      }
      TransposeRows(panel.output, panel.depth, panel, panel.depth, panel.query);
      break;
  }
}

// panel.logits = K Q^T.
HWY_INLINE void MultiplyByKeys(const Panel& panel) {
  if (panel.arithmetic == Arithmetic::kBf16Gemm) {
    simd::Bf16Gemm(panel.keys, panel.width, panel.depth, static_cast<const uint16_t*>(panel.key),
                   panel.key_stride, reinterpret_cast<const uint16_t*>(panel.query), panel.width,
                   panel.logits, panel.width);
    return;
  }
  Factors factors = {static_cast<const float*>(panel.key),
                     panel.key_stride,
                     1,
                     panel.query,
                     panel.width,
                     panel.depth};
  int64_t column = 0;
  for (; column + 2 * kLanes <= panel.width; column += 2 * kLanes, factors.b += 2 * kLanes) {
    MultiplyRows<2>(factors, panel.keys, panel.logits + column, panel.width);
  }
  if (column < panel.width) {
    MultiplyRows<1>(factors, panel.keys, panel.logits + column, panel.width);
  }
}

// out = weights V * row_factors in fp32, rows `stride` apart; not for kBf16Gemm.
HWY_INLINE void MultiplyByValuesFp32(const Panel& panel, float* out, int64_t stride) {
  const Factors factors = {panel.logits,       1,
                           panel.width,        static_cast<const float*>(panel.value),
                           panel.value_stride, panel.keys};
  MultiplyColumns(factors, panel.rows, panel.dim, out, stride, panel.row_factors);
}

// The same by bf16 products, transposed: out^T = V^T weights^T. Rows of bf16, an even number of
// elements apart.
HWY_INLINE void MultiplyByValuesBf16(const Panel& panel, uint16_t* to, int64_t stride) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const int64_t even_keys = RoundUpToEven(panel.keys);
  float* out = panel.output;
  simd::Bf16Gemm(panel.dim, panel.width, even_keys, static_cast<const uint16_t*>(panel.value),
                 even_keys, reinterpret_cast<const uint16_t*>(panel.logits), panel.width, out,
                 panel.width);
  // Neighbouring channels become words, in place, which are transposed into the output's rows.
  uint32_t* words = reinterpret_cast<uint32_t*>(out);
  for (int64_t column = 0; column < panel.width; column += kLanes) {
    const auto factor = hn::LoadU(d, panel.row_factors + column);
    for (int64_t c = 0; c < panel.dim; c += 2) {
      const float* channels = out + c * panel.width + column;
      const auto first = hn::Mul(hn::LoadU(d, channels), factor);
      const auto second = hn::Mul(hn::LoadU(d, channels + panel.width), factor);
      hn::StoreU(PairBf16(RoundToBf16(d, first), RoundToBf16(d, second)), du,
                 words + c / 2 * panel.width + column);
    }
  }
  Transpose32(words, panel.width, panel.dim / 2, panel.rows, reinterpret_cast<uint32_t*>(to),
              stride / 2);
}

// The panel's output rows in the tensors' type, `stride` elements apart.
HWY_INLINE void MultiplyByValues(const Panel& panel, void* out, int64_t stride) {
  switch (panel.arithmetic) {
    case Arithmetic::kFp32:
      MultiplyByValuesFp32(panel, static_cast<float*>(out), stride);
      break;
    case Arithmetic::kBf16Gemm:
      MultiplyByValuesBf16(panel, static_cast<uint16_t*>(out), stride);
      break;
    case Arithmetic::kWidenedBf16:
      MultiplyByValuesFp32(panel, panel.output, panel.dim);
      for (int64_t r = 0; r < panel.rows; ++r) {
        Fp32ToBf16(panel.output + r * panel.dim, panel.dim,
                   static_cast<uint16_t*>(out) + r * stride);
      }
      break;
  }
}

// Where a head's keys and values are put that cannot be multiplied as they lie.
struct Staged {
  float* key;    // kWidenedBf16: [keys, depth]
  float* value;  // kWidenedBf16: [keys, dim]; kBf16Gemm: V^T in bf16, [dim, keys rounded up]
};

// panel.key and panel.value from rows in the tensors' type, strides in elements: as they are, or by
// way of `staged`.
HWY_INLINE void TakeValues(const void* value, int64_t stride, const Staged& staged, Panel& panel) {
  panel.value = value;
  panel.value_stride = stride;
  if (panel.arithmetic == Arithmetic::kBf16Gemm) {
    const int64_t even_keys = RoundUpToEven(panel.keys);
    uint16_t* transposed = reinterpret_cast<uint16_t*>(staged.value);
    Transpose16(static_cast<const uint16_t*>(value), stride, panel.keys, panel.dim, transposed,
                even_keys);
    if (even_keys != panel.keys) {
      for (int64_t c = 0; c < panel.dim; ++c) transposed[c * even_keys + panel.keys] = 0;
    }
    panel.value = transposed;
  } else if (panel.arithmetic == Arithmetic::kWidenedBf16) {
    for (int64_t j = 0; j < panel.keys; ++j) {
      Bf16ToFp32(static_cast<const uint16_t*>(value) + j * stride, panel.dim,
                 staged.value + j * panel.dim);
    }
    panel.value = staged.value;
    panel.value_stride = panel.dim;
  }
}
HWY_INLINE void TakeKeys(const void* key, int64_t stride, const Staged& staged, Panel& panel) {
  panel.key = key;
  panel.key_stride = stride;
  if (panel.arithmetic != Arithmetic::kWidenedBf16) return;
  for (int64_t j = 0; j < panel.keys; ++j) {
    Bf16ToFp32(static_cast<const uint16_t*>(key) + j * stride, panel.depth,
               staged.key + j * panel.depth);
  }
  panel.key = staged.key;
  panel.key_stride = panel.depth;
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
