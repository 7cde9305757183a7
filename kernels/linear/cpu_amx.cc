// A tile of 32 x 32 products takes four of AMX's registers. Its last step stores them to memory
// that stays in the first cache; what is left to do with them (bias, activation, residual,
// rounding) is done a few rows at a time between the steps of the tile that follows, on units that
// its products leave idle.
#include "kernels/linear/cpu_amx.h"

#include <cstdint>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/cpu_amx.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear/cpu_rows-inl.h"
#include "kernels/simd/amx.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

using rows::AmxOperand;

#if HWY_TARGET == HWY_AVX3

inline constexpr int64_t kSide = 32;      // of a tile of products
inline constexpr int64_t kRegister = 16;  // rows, and fp32 columns, of a register
inline constexpr int64_t kStep = 32;      // of the depth

// Of a block's columns, those that a tile multiplies.
struct Columns {
  const uint16_t* data;
  int64_t pairs;  // bytes from pair of rows to pair of rows
  int64_t plane;  // elements from part to part
};

template <int kColumnRegisters>
HWY_INLINE void LoadColumns(const uint16_t* at, const Columns& columns) {
  simd::TileLoad<6>(at, columns.pairs);
  if constexpr (kColumnRegisters == 2) simd::TileLoad<7>(at + 2 * kRegister, columns.pairs);
}

template <int kRowRegisters>
HWY_INLINE void LoadRows(const uint16_t* at, int64_t stride) {
  simd::TileLoad<4>(at, 2 * stride);
  if constexpr (kRowRegisters == 2) simd::TileLoad<5>(at + kRegister * stride, 2 * stride);
}

template <int kRowRegisters, int kColumnRegisters>
HWY_INLINE void AddProducts() {
  simd::TileMultiplyBf16<0, 4, 6>();
  if constexpr (kColumnRegisters == 2) simd::TileMultiplyBf16<1, 4, 7>();
  if constexpr (kRowRegisters == 2) simd::TileMultiplyBf16<2, 5, 6>();
  if constexpr (kRowRegisters == 2 && kColumnRegisters == 2) simd::TileMultiplyBf16<3, 5, 7>();
}

// products [32, 32] = rows * columns; between(i) after the ith step.
template <int kRowRegisters, int kColumnRegisters, class Between>
HWY_INLINE void MultiplyTile(const AmxOperand& rows, const Columns& columns, int64_t depth,
                             float* products, const Between& between) {
  simd::TileZero<0>();
  simd::TileZero<1>();
  simd::TileZero<2>();
  simd::TileZero<3>();
  for (int64_t k = 0; k < depth; k += kStep) {
    const uint16_t* const a = rows.data + k;
    const uint16_t* const b = columns.data + k / 2 * (columns.pairs / 2);
    if (rows.plane == 0) {
      LoadRows<kRowRegisters>(a, rows.stride);
      LoadColumns<kColumnRegisters>(b, columns);
      AddProducts<kRowRegisters, kColumnRegisters>();
    } else {
      // Six of the nine products of parts; those of the small ones are as small as what fp32
      // rounds away. In an order in which each step loads one side only.
      const int64_t ap = rows.plane, bp = columns.plane;
      LoadRows<kRowRegisters>(a, rows.stride);
      LoadColumns<kColumnRegisters>(b + 2 * bp, columns);
      AddProducts<kRowRegisters, kColumnRegisters>();
      LoadColumns<kColumnRegisters>(b + bp, columns);
      AddProducts<kRowRegisters, kColumnRegisters>();
      LoadRows<kRowRegisters>(a + ap, rows.stride);
      AddProducts<kRowRegisters, kColumnRegisters>();
      LoadColumns<kColumnRegisters>(b, columns);
      AddProducts<kRowRegisters, kColumnRegisters>();
      LoadRows<kRowRegisters>(a + 2 * ap, rows.stride);
      AddProducts<kRowRegisters, kColumnRegisters>();
      LoadRows<kRowRegisters>(a, rows.stride);
      AddProducts<kRowRegisters, kColumnRegisters>();
    }
    between(k / kStep);
  }
  constexpr int64_t kRow = kSide * 4;  // bytes
  simd::TileStore<0>(products, kRow);
  if constexpr (kColumnRegisters == 2) simd::TileStore<1>(products + kRegister, kRow);
  if constexpr (kRowRegisters == 2) simd::TileStore<2>(products + kRegister * kSide, kRow);
  if constexpr (kRowRegisters == 2 && kColumnRegisters == 2) {
    simd::TileStore<3>(products + kRegister * kSide + kRegister, kRow);
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
  HWY_INLINE void Finish() const {
    const int64_t depth = matrix.depth(), steps = depth / kStep;
    // The tile whose products wait in memory.
    BlockTerms waiting = terms;
    Rows rows_of_waiting = to;
    waiting.count = 0;
    int64_t finished = 0, per_step = 0;
    float* products = scratch;
    const auto finish = [&](int64_t end) HWY_ATTR {
      if (end > waiting.count) end = waiting.count;
      FinishRows<T, kActivation, kAdds, kSide>(waiting, rows_of_waiting, finished, end);
      finished = end;
    };
    const auto between = [&](int64_t /*step*/) HWY_ATTR { finish(finished + per_step); };
    for (int64_t block = begin; block < end; ++block) {
      const int64_t block_columns = matrix.Columns(block);
      const auto* const data = static_cast<const uint16_t*>(matrix.Block(block));
      for (int64_t c = 0; c < block_columns; c += kSide) {
        const int64_t column = block * PackedMatrix::kBlock + c;
        const Columns columns = {data + 2 * c, 4 * block_columns, depth * block_columns};
        const bool wide = block_columns - c > kRegister;
        for (int64_t r = 0; r < terms.count; r += kSide) {
          const AmxOperand rows = {operand.data + r * operand.stride, operand.stride,
                                   operand.plane};
          const bool tall = terms.count - r > kRegister;
          if (tall && wide) {
            MultiplyTile<2, 2>(rows, columns, depth, products, between);
          } else if (tall) {
            MultiplyTile<2, 1>(rows, columns, depth, products, between);
          } else if (wide) {
            MultiplyTile<1, 2>(rows, columns, depth, products, between);
          } else {
            MultiplyTile<1, 1>(rows, columns, depth, products, between);
          }
          finish(waiting.count);
          waiting.products = products;
          waiting.count = terms.count - r < kSide ? terms.count - r : kSide;
          waiting.columns = matrix.out() - column < kSide ? matrix.out() - column : kSide;
          waiting.bias = matrix.bias() + column;
          if (terms.residual_scale != nullptr) {
            waiting.residual_scale = terms.residual_scale + column;
          }
          if (terms.residual.data != nullptr) {
            waiting.residual.data =
                static_cast<const T*>(terms.residual.data) + r * terms.residual.stride + column;
          }
          rows_of_waiting.data = static_cast<T*>(to.data) + r * to.stride + column;
          finished = 0;
          per_step = (waiting.count + steps - 1) / steps;
          products = products == scratch ? scratch + kSide * kSide : scratch;
        }
      }
    }
    finish(waiting.count);
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

}  // namespace fovea::kernels::rows
#endif  // HWY_ONCE
