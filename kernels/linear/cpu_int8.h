// Rows in 8 bits, their products with a matrix in 8 bits, and what becomes of these; as raw memory,
// compiled once per instruction set.
//   A row's scale is its largest value over 127, or, where the matrix has scales for its inputs
// (PackedMatrix::inverse_input_scales), one: the channels are divided by those, and what is larger
// than 127 of them is clipped. Values are rounded to nearest, ties to even.
//   A row whose largest value is under 1e-30 is one of zeros; a row with a NaN, or with an infinity
// that is not clipped, is one of NaN.
#pragma once
#include <cstdint>

#include "kernels/linear/cpu_rows.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/simd/amx_layout.h"

namespace fovea::kernels::rows {

// s8 [count, stride] and the rows' scales [count]. Operands are readable up to the next multiple of
// 16 rows, and zero from a matrix's `in` up to its depth.
struct Int8Rows {
  int8_t* data;
  int64_t stride;
  float* scales;
};
struct ConstInt8Rows {
  const int8_t* data = nullptr;
  int64_t stride = 0;
  const float* scales = nullptr;
};

// Rows [count, columns] of bf16 or fp32, normalised first where `norm` is not null. `inverse`: one
// over the scales of the channels, or null. `to` may lie where `from` does, row by row, without a
// norm. Scales are one with `inverse`, or NaN.
void Quantise(bool bf16, const ConstRows& from, int64_t count, int64_t columns,
              const NormTerms* norm, const float* inverse, const Int8Rows& to);

// What becomes of products [count, products_stride]: `block` has all but those, and its count.
//   row scale * column scale * product + bias is what BlockTerms has as product + bias. GELU errs
// by less than 4e-4 * max(1, |x| / 6).
struct Int8Terms {
  BlockTerms block;
  const int32_t* products = nullptr;
  int64_t products_stride = 0;
  const float* row_scales = nullptr;
  const float* column_scales = nullptr;  // readable up to the next whole vector
  // Not null: the result is quantised with these, one over the scales of its columns, and `to` is
  // of s8. Whole blocks of columns only, and no residual.
  const float* inverse = nullptr;
};
void FinishInt8(bool bf16, const Int8Terms& terms, const Rows& to);

// products [count, PackedMatrix::kBlock] of rows and one of the matrix's blocks, which is not
// packed_for_amx().
void MultiplyInt8(const ConstInt8Rows& rows, int64_t count, const PackedMatrix& matrix,
                  int64_t block, int32_t* products);

// On AMX, of bf16 rows: the same as MultiplyInt8 and FinishInt8 of blocks [begin, end) of a matrix
// that is packed_for_amx(); `terms` begins with column 0 and has no products and no scales of its
// own. scratch: kAmxInt8Scratch. Within simd::AmxTiles.
void MultiplyInt8OnAmx(const ConstInt8Rows& rows, const PackedMatrix& matrix,
                       const Int8Terms& terms, int64_t begin, int64_t end, int32_t* scratch,
                       const Rows& to);
inline constexpr int64_t kAmxInt8Scratch = 2 * simd::kSide * simd::kSide;

}  // namespace fovea::kernels::rows
