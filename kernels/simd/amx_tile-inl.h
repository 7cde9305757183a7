// A tile of products on AMX: kSide rows and columns of fp32 or s32 in the registers 0 to 3, two
// above and two below; at an edge it may be one register high or wide. The rows' operands are in
// the registers 4 and 5, the columns' in 6 and 7. Compiled once per instruction set.
#if defined(FOVEA_KERNELS_SIMD_AMX_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_SIMD_AMX_TILE_INL_H_
#undef FOVEA_KERNELS_SIMD_AMX_TILE_INL_H_
#else
#define FOVEA_KERNELS_SIMD_AMX_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/simd/amx.h"
#include "kernels/simd/amx_layout.h"
#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

using simd::kRegister;
using simd::kRegisterRow;
using simd::kSide;
using simd::kStep;

// How many registers a tile is high and wide.
template <int kRowRegisters, int kColumnRegisters>
struct TileShape {
  static constexpr bool kTall = kRowRegisters == 2, kWide = kColumnRegisters == 2;
};

HWY_INLINE void ZeroProducts() {
  simd::TileZero<0>();
  simd::TileZero<1>();
  simd::TileZero<2>();
  simd::TileZero<3>();
}

// Rows of products of 32 bits are `stride` elements apart.
template <class Shape, class T>
HWY_INLINE void LoadProducts(const T* products, int64_t stride) {
  const T* const below = products + kRegister * stride;
  simd::TileLoad<0>(products, stride * 4);
  if constexpr (Shape::kWide) simd::TileLoad<1>(products + kRegister, stride * 4);
  if constexpr (Shape::kTall) simd::TileLoad<2>(below, stride * 4);
  if constexpr (Shape::kTall && Shape::kWide) simd::TileLoad<3>(below + kRegister, stride * 4);
}

template <class Shape, class T>
HWY_INLINE void StoreProducts(T* products, int64_t stride) {
  T* const below = products + kRegister * stride;
  simd::TileStore<0>(products, stride * 4);
  if constexpr (Shape::kWide) simd::TileStore<1>(products + kRegister, stride * 4);
  if constexpr (Shape::kTall) simd::TileStore<2>(below, stride * 4);
  if constexpr (Shape::kTall && Shape::kWide) simd::TileStore<3>(below + kRegister, stride * 4);
}

// A step's bf16 operands: rows `stride` elements apart, registers of columns `across`.
template <class Shape>
HWY_INLINE void LoadRows(const uint16_t* at, int64_t stride) {
  simd::TileLoad<4>(at, 2 * stride);
  if constexpr (Shape::kTall) simd::TileLoad<5>(at + kRegister * stride, 2 * stride);
}

template <class Shape>
HWY_INLINE void LoadColumns(const uint16_t* at, int64_t across) {
  simd::TileLoad<6>(at, kRegisterRow);
  if constexpr (Shape::kWide) simd::TileLoad<7>(at + across, kRegisterRow);
}

template <class Shape>
HWY_INLINE void AddProducts() {
  simd::TileMultiplyBf16<0, 4, 6>();
  if constexpr (Shape::kWide) simd::TileMultiplyBf16<1, 4, 7>();
  if constexpr (Shape::kTall) simd::TileMultiplyBf16<2, 5, 6>();
  if constexpr (Shape::kTall && Shape::kWide) simd::TileMultiplyBf16<3, 5, 7>();
}

// multiply(shape) of the tile of which `height` rows and `width` columns are left.
template <class Multiply>
HWY_INLINE void WithTileShape(int64_t height, int64_t width, const Multiply& multiply) {
  const bool tall = height > kRegister, wide = width > kRegister;
  if (tall && wide) {
    multiply(TileShape<2, 2>());
  } else if (tall) {
    multiply(TileShape<2, 1>());
  } else if (wide) {
    multiply(TileShape<1, 2>());
  } else {
    multiply(TileShape<1, 1>());
  }
}

// On a lambda for WithTileShape, which is to be compiled into each of its shapes.
#define FOVEA_TILE_ATTR HWY_ATTR __attribute__((always_inline))

#endif  // AVX-512

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
