// A tile of 32 x 32 products takes four of AMX's registers. Its last step stores them to memory
// that stays in L1; what is left to do with them (bias, activation, residual,
// rounding) is done a few rows at a time between the steps of the tile that follows, on units that
// its products leave idle.
#include "kernels/linear/cpu_amx.h"

#include <hwy/cache_control.h>

#include <cstdint>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/cpu_amx.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear/cpu_rows-inl.h"
#include "kernels/simd/amx_tile-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

using rows::AmxOperand;

#if HWY_TARGET == HWY_AVX3

// Of a block's columns, those that a tile multiplies.
struct Columns {
  const uint16_t* data;
  int64_t step;   // elements from step to step of the depth
  int64_t plane;  // from part to part
};

// Of three parts each, the pairs that are multiplied: six of nine. The products of the small ones
// are as small as what fp32 rounds away.
inline constexpr int64_t kPairsOfParts = 6;

// How often between() is called while a tile is multiplied: after each pair of parts, so that few
// enough of the tiles' instructions stand in a row for the processor to see beyond them.
HWY_INLINE int64_t Pauses(const PackedMatrix& matrix, int64_t depth) {
  return depth / kStep * (matrix.products() == Products::kBf16 ? 1 : kPairsOfParts);
}

// products [32, 32], rows `stride` apart, = or += rows * columns; between() at each pause.
template <class Shape, bool kAccumulate, class Between>
HWY_INLINE void MultiplyTile(const AmxOperand& rows, const Columns& columns, int64_t depth,
                             float* products, int64_t stride, const Between& between) {
  constexpr int64_t kAcross = simd::kRegisterElements;
  if constexpr (kAccumulate) {
    LoadProducts<Shape>(products, stride);
  } else {
    ZeroProducts();
  }
  for (int64_t k = 0; k < depth; k += kStep) {
    const uint16_t* const a = rows.data + k;
    const uint16_t* const b = columns.data + k / kStep * columns.step;
    if (rows.plane == 0) {
      LoadRows<Shape>(a, rows.stride);
      LoadColumns<Shape>(b, kAcross);
      AddProducts<Shape>();
    } else {
      // In an order in which each pair but the first loads one side only.
      const int64_t ap = rows.plane, bp = columns.plane;
      LoadRows<Shape>(a, rows.stride);
      LoadColumns<Shape>(b + 2 * bp, kAcross);
      AddProducts<Shape>();
      between();
      LoadColumns<Shape>(b + bp, kAcross);
      AddProducts<Shape>();
      between();
      LoadRows<Shape>(a + ap, rows.stride);
      AddProducts<Shape>();
      between();
      LoadColumns<Shape>(b, kAcross);
      AddProducts<Shape>();
      between();
      LoadRows<Shape>(a + 2 * ap, rows.stride);
      AddProducts<Shape>();
      between();
      LoadRows<Shape>(a, rows.stride);
      AddProducts<Shape>();
    }
    between();
  }
  StoreProducts<Shape>(products, stride);
}

AmxOperand RowsFrom(const AmxOperand& operand, int64_t row) {
  return {operand.data + row * operand.stride, operand.stride, operand.plane};
}

static_assert(PackedMatrix::kPanel == kSide);

// The weights of at most two registers of columns.
struct Panel {
  int64_t block;
  int64_t column;  // within it
};

HWY_INLINE int64_t WidthOf(const PackedMatrix& matrix, const Panel& panel) {
  const int64_t rest = matrix.Columns(panel.block) - panel.column;
  return rest < kSide ? rest : kSide;
}

// A panel's weights in three bf16 parts, made some at a time: cut off, not rounded, so that each
// has eight bits of a weight's 24 and all three are exact. Two rows give a row of pairs.
class Splitter {
 public:
  // For `depth` rows from `begin` on, to `parts`.
  HWY_INLINE void Start(const PackedMatrix& matrix, const Panel& panel, int64_t begin,
                        int64_t depth, uint16_t* parts) {
    const int64_t width = WidthOf(matrix, panel);
    from_ = static_cast<const float*>(matrix.Block(panel.block)) + panel.column * matrix.depth() +
            begin * width;
    step_ = kStep * width;
    plane_ = rows::AmxPlane(depth);
    parts_ = parts;
    next_ = 0;
    end_ = depth * width;
  }
  // At most so many more rows of pairs.
  HWY_INLINE void Advance(int64_t pairs) {
    const DF d;
    const hn::RebindToUnsigned<DF> du;
    const auto upper = hn::Set(du, 0xFFFF0000u);
    // Apart from what is stored, so that they stay in registers.
    const float* const from = from_;
    uint16_t* const parts = parts_;
    const int64_t plane = plane_;
    const int64_t end = next_ + 2 * kLanes * pairs < end_ ? next_ + 2 * kLanes * pairs : end_;
    for (int64_t i = next_; i < end; i += 2 * kLanes) {
      VF even = Load(from + i), odd = Load(from + i + kLanes);
      hwy::Prefetch(from + i + kAhead);
      hwy::Prefetch(from + i + kAhead + kLanes);
      for (int part = 0; part < 3; ++part) {
        const auto even_bits = hn::BitCast(du, even), odd_bits = hn::BitCast(du, odd);
        const auto odd_part = hn::And(odd_bits, upper);
        hn::StoreU(hn::Or(odd_part, hn::ShiftRight<16>(even_bits)), du,
                   reinterpret_cast<uint32_t*>(parts + part * plane + i));
        even = hn::Sub(even, hn::BitCast(d, hn::And(even_bits, upper)));
        odd = hn::Sub(odd, hn::BitCast(d, odd_part));
      }
    }
    next_ = end;
  }
  HWY_INLINE int64_t pairs() const { return end_ / (2 * kLanes); }
  HWY_INLINE Columns Finish() {
    Advance(pairs());
    simd::TileFence();
    return {parts_, step_, plane_};
  }

 private:
  // Weights before they are needed: two pages, past which the processor does not look by itself.
  static constexpr int64_t kAhead = 2 * 4096 / sizeof(float);

  const float* from_ = nullptr;
  uint16_t* parts_ = nullptr;
  int64_t step_ = 0, plane_ = 0;
  int64_t next_ = 0, end_ = 0;
};

// visit(panel, columns, between) for each panel of blocks [begin, end), its rows
// [first, first + depth). between() is to be called at each pause of each tile of `count` rows: the
// parts of the next panel are made there.
template <class Visit>
HWY_INLINE void ForPanels(const PackedMatrix& matrix, int64_t begin, int64_t end, int64_t first,
                          int64_t depth, int64_t count, float* scratch, const Visit& visit) {
  const auto next = [&](const Panel& panel) HWY_ATTR {
    if (panel.column + kSide < matrix.Columns(panel.block)) {
      return Panel{panel.block, panel.column + kSide};
    }
    return Panel{panel.block + 1, 0};
  };
  if (matrix.products() == Products::kBf16) {
    for (Panel panel = {begin, 0}; panel.block < end; panel = next(panel)) {
      const int64_t width = WidthOf(matrix, panel);
      const auto* const data = static_cast<const uint16_t*>(matrix.Block(panel.block));
      visit(panel, Columns{data + panel.column * matrix.depth() + first * width, kStep * width, 0},
            []() HWY_ATTR {});
    }
    return;
  }
  const int64_t pauses = (count + kSide - 1) / kSide * Pauses(matrix, depth);
  uint16_t* parts = reinterpret_cast<uint16_t*>(scratch + 2 * kSide * kSide);
  uint16_t* other = parts + 3 * rows::AmxPlane(depth);
  Splitter splitter;
  splitter.Start(matrix, {begin, 0}, first, depth, parts);
  for (Panel panel = {begin, 0}; panel.block < end;) {
    const Columns columns = splitter.Finish();
    const Panel following = next(panel);
    int64_t per_pause = 0;
    if (following.block < end) {
      splitter.Start(matrix, following, first, depth, other);
      per_pause = (splitter.pairs() + pauses - 1) / pauses;
    }
    visit(panel, columns, [&]() HWY_ATTR { splitter.Advance(per_pause); });
    panel = following;
    uint16_t* const made = other;
    other = parts;
    parts = made;
  }
}

struct MultiplyLayer {
  const AmxOperand& operand;
  const PackedMatrix& matrix;
  const BlockTerms& terms;
  int64_t begin, end;
  float* scratch;
  const Rows& to;

  template <class T, Activation kActivation, Adds kAdds>
  HWY_INLINE void Run() const {
    // Only what lies between two layers is written in parts.
    if constexpr (sizeof(T) == 4 && kAdds == Adds::kNothing) {
      if (to.plane != 0) return RunAs<T, kActivation, kAdds, /*kSplit=*/true>();
    }
    RunAs<T, kActivation, kAdds, /*kSplit=*/false>();
  }

  template <class T, Activation kActivation, Adds kAdds, bool kSplit>
  HWY_INLINE void RunAs() const {
    simd::TileFence();
    const int64_t depth = matrix.depth(), pauses = Pauses(matrix, depth);
    // The tile whose products wait in memory.
    BlockTerms waiting = terms;
    waiting.products_stride = kSide;
    waiting.count = 0;
    Rows rows_of_waiting = to;
    int64_t finished = 0, per_pause = 0;
    float* products = scratch;
    const auto finish = [&](int64_t end) HWY_ATTR {
      if (end > waiting.count) end = waiting.count;
      FinishRows<T, kActivation, kAdds, kSide, kSplit>(waiting, rows_of_waiting, finished, end);
      finished = end;
    };
    ForPanels(matrix, begin, end, 0, depth, terms.count, scratch,
              [&](const Panel& panel, const Columns& columns, const auto& between) HWY_ATTR {
                const int64_t column = panel.block * PackedMatrix::kBlock + panel.column;
                const int64_t width = matrix.Columns(panel.block) - panel.column;
                for (int64_t r = 0; r < terms.count; r += kSide) {
                  const AmxOperand rows = RowsFrom(operand, r);
                  const auto pause = [&]() HWY_ATTR {
                    between();
                    if (finished < waiting.count) finish(finished + per_pause);
                  };
                  WithTileShape(terms.count - r, width, [&](auto shape) FOVEA_TILE_ATTR {
                    MultiplyTile<decltype(shape), /*kAccumulate=*/false>(rows, columns, depth,
                                                                         products, kSide, pause);
                  });
                  finish(waiting.count);
                  waiting.products = products;
                  SetTile<T>(terms, matrix, r, column, waiting);
                  rows_of_waiting.data = ElementOf<T, kSplit>(r * to.stride + column);
                  finished = 0;
                  per_pause = (waiting.count + pauses - 1) / pauses;
                  products = products == scratch ? scratch + kSide * kSide : scratch;
                }
              });
    finish(waiting.count);
  }

  template <class T, bool kSplit>
  HWY_INLINE void* ElementOf(int64_t place) const {
    if constexpr (kSplit) return static_cast<uint16_t*>(to.data) + place;
    return static_cast<T*>(to.data) + place;
  }
};

void MultiplyOnAmx(const AmxOperand& operand, const PackedMatrix& matrix, const BlockTerms& terms,
                   int64_t begin, int64_t end, float* scratch, const Rows& to) {
  const MultiplyLayer layer = {operand, matrix, terms, begin, end, scratch, to};
  if (matrix.products() == Products::kBf16) {
    WithTerms<uint16_t>(terms, layer);
  } else {
    WithTerms<float>(terms, layer);
  }
}

void AccumulateOnAmx(const AmxOperand& operand, const PackedMatrix& matrix, int64_t begin,
                     int64_t end, int64_t first, int64_t depth, int64_t count, float* scratch,
                     float* sums, int64_t stride) {
  simd::TileFence();
  ForPanels(matrix, begin, end, first, depth, count, scratch,
            [&](const Panel& panel, const Columns& columns, const auto& between) HWY_ATTR {
              float* const to = sums + (panel.block - begin) * PackedMatrix::kBlock + panel.column;
              const int64_t width = matrix.Columns(panel.block) - panel.column;
              for (int64_t r = 0; r < count; r += kSide) {
                const AmxOperand rows = RowsFrom(operand, r);
                WithTileShape(count - r, width, [&](auto shape) FOVEA_TILE_ATTR {
                  MultiplyTile<decltype(shape), /*kAccumulate=*/true>(
                      rows, columns, depth, to + r * stride, stride, between);
                });
              }
            });
}

#endif  // AVX-512

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::rows {

void MultiplyOnAmx(const AmxOperand& operand, const PackedMatrix& matrix, const BlockTerms& terms,
                   int64_t begin, int64_t end, float* scratch, const Rows& to) {
  N_AVX3::MultiplyOnAmx(operand, matrix, terms, begin, end, scratch, to);
}

void AccumulateOnAmx(const AmxOperand& operand, const PackedMatrix& matrix, int64_t begin,
                     int64_t end, int64_t first, int64_t depth, int64_t count, float* scratch,
                     float* sums, int64_t stride) {
  N_AVX3::AccumulateOnAmx(operand, matrix, begin, end, first, depth, count, scratch, sums, stride);
}

}  // namespace fovea::kernels::rows
#endif  // HWY_ONCE
