// A layer's products on AMX's tiles, which become rows while the next ones are computed.
#pragma once
#include <cstdint>

#include "kernels/linear/cpu_rows.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/simd/amx_layout.h"

namespace fovea::kernels::rows {

// rows [count, depth] in bf16 (of Products::kBf16x3 three parts, `plane` elements apart),
// readable up to the next multiple of 16 rows; strides in elements.
struct AmxOperand {
  const uint16_t* data;
  int64_t stride;
  int64_t plane;
};

// Elements from part to part of a panel's columns.
inline constexpr int64_t AmxPlane(int64_t depth) { return simd::Plane(simd::kSide * depth); }

// Room for the products of two tiles of 32 x 32 and, with Products::kBf16x3, for the parts of
// twice 32 columns of `depth` weights; in floats.
inline constexpr int64_t AmxScratch(Products products, int64_t depth) {
  return 2 * simd::kSide * simd::kSide + (products == Products::kBf16x3 ? 3 * AmxPlane(depth) : 0);
}

// Of blocks [begin, end) of the matrix: to = activation(operand * matrix + bias) + residual_scale *
// residual: `terms` has count, what is done, and the residual; products, columns and bias are its
// own. Within simd::AmxTiles.
void MultiplyOnAmx(const AmxOperand& operand, const PackedMatrix& matrix, const BlockTerms& terms,
                   int64_t begin, int64_t end, float* scratch, const Rows& to);

// sums [count, stride], from the first of the columns on, += operand [count, depth] * rows [first,
// first + depth) of blocks [begin, end) of the matrix, `first` and `depth` multiples of 32. Rows of
// the sums exist up to the next multiple of 16.
void AccumulateOnAmx(const AmxOperand& operand, const PackedMatrix& matrix, int64_t begin,
                     int64_t end, int64_t first, int64_t depth, int64_t count, float* scratch,
                     float* sums, int64_t stride);

}  // namespace fovea::kernels::rows
