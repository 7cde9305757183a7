// As cpu_amx.cc: a tile of 32 x 32 products takes four of AMX's registers, and what is left to do
// with them is done a few rows at a time between the steps of the tile that follows. A step of the
// depth is 64 wide.
#include <cstdint>

#include "kernels/linear/cpu_int8.h"
#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/cpu_amx_int8.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/linear/cpu_int8-inl.h"
#include "kernels/simd/amx_tile-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

using rows::ConstInt8Rows;

// products [32, 32] = rows * weights, whose steps of the depth are `step` bytes apart; between()
// after each step.
template <class Shape, class Between>
HWY_INLINE void MultiplyTile(const int8_t* rows, int64_t stride, const int8_t* weights,
                             int64_t step, int64_t depth, int32_t* products,
                             const Between& between) {
  ZeroProducts();
  for (int64_t k = 0; k < depth; k += simd::kInt8Step, weights += step) {
    simd::TileLoad<4>(rows + k, stride);
    simd::TileLoad<6>(weights, kRegisterRow);
    simd::TileMultiplyInt8<0, 4, 6>();
    if constexpr (Shape::kWide) {
      simd::TileLoad<7>(weights + simd::kRegisterBytes, kRegisterRow);
      simd::TileMultiplyInt8<1, 4, 7>();
    }
    if constexpr (Shape::kTall) {
      simd::TileLoad<5>(rows + kRegister * stride + k, stride);
      simd::TileMultiplyInt8<2, 5, 6>();
      if constexpr (Shape::kWide) simd::TileMultiplyInt8<3, 5, 7>();
    }
    between();
  }
  StoreProducts<Shape>(products, kSide);
}

struct MultiplyInt8Layer {
  const ConstInt8Rows& rows;
  const PackedMatrix& matrix;
  const Int8Terms& terms;
  int64_t begin, end;
  int32_t* scratch;
  const Rows& to;

  template <class T, Activation kActivation, Adds kAdds>
  HWY_INLINE void Run() const {
    if constexpr (kAdds == Adds::kNothing) {
      if (terms.inverse != nullptr) return RunAs<T, kActivation, kAdds, /*kQuantise=*/true>();
    }
    RunAs<T, kActivation, kAdds, /*kQuantise=*/false>();
  }

  template <class T, Activation kActivation, Adds kAdds, bool kQuantise>
  HWY_INLINE void RunAs() const {
    simd::TileFence();
    const int64_t depth = matrix.depth(), steps = depth / simd::kInt8Step;
    const int64_t count = terms.block.count;
    // The tile whose products wait in memory.
    Int8Terms waiting = terms;
    waiting.products_stride = kSide;
    waiting.block.count = 0;
    Rows rows_of_waiting = to;
    int64_t finished = 0, per_step = 0;
    int32_t* products = scratch;
    const auto finish = [&](int64_t until) HWY_ATTR {
      if (until > waiting.block.count) until = waiting.block.count;
      FinishInt8Rows<T, kActivation, kAdds, kSide, kQuantise>(waiting, rows_of_waiting, finished,
                                                              until);
      finished = until;
    };
    for (int64_t block = begin; block < end; ++block) {
      const int64_t columns = matrix.Columns(block);
      for (int64_t within = 0; within < columns; within += kSide) {
        const int64_t column = block * PackedMatrix::kBlock + within;
        const int8_t* const weights =
            static_cast<const int8_t*>(matrix.Block(block)) + within * depth;
        const int64_t step =
            simd::kInt8Step * (columns - within < kSide ? columns - within : kSide);
        for (int64_t r = 0; r < count; r += kSide) {
          const auto pause = [&]() HWY_ATTR { finish(finished + per_step); };
          WithTileShape(count - r, columns - within, [&](auto shape) FOVEA_TILE_ATTR {
            MultiplyTile<decltype(shape)>(rows.data + r * rows.stride, rows.stride, weights, step,
                                          depth, products, pause);
          });
          finish(waiting.block.count);
          waiting.products = products;
          waiting.row_scales = rows.scales + r;
          waiting.column_scales = matrix.scales() + column;
          if (kQuantise) waiting.inverse = terms.inverse + column;
          SetTile<T>(terms.block, matrix, r, column, waiting.block);
          const int64_t place = r * to.stride + column;
          rows_of_waiting.data = kQuantise
                                     ? static_cast<void*>(static_cast<int8_t*>(to.data) + place)
                                     : static_cast<T*>(to.data) + place;
          finished = 0;
          per_step = (waiting.block.count + steps - 1) / steps;
          products = products == scratch ? scratch + kSide * kSide : scratch;
        }
      }
    }
    finish(waiting.block.count);
  }
};

void MultiplyInt8OnAmx(const ConstInt8Rows& rows, const PackedMatrix& matrix,
                       const Int8Terms& terms, int64_t begin, int64_t end, int32_t* scratch,
                       const Rows& to) {
  WithTerms<uint16_t>(terms.block, MultiplyInt8Layer{rows, matrix, terms, begin, end, scratch, to});
}

#endif  // AVX-512

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::rows {

void MultiplyInt8OnAmx(const ConstInt8Rows& rows, const PackedMatrix& matrix,
                       const Int8Terms& terms, int64_t begin, int64_t end, int32_t* scratch,
                       const Rows& to) {
  N_AVX3::MultiplyInt8OnAmx(rows, matrix, terms, begin, end, scratch, to);
}

}  // namespace fovea::kernels::rows
#endif  // HWY_ONCE
