// Where what a chain (linear_chain.h) needs lies in its memory, and whether threads divide its rows
// or its columns: from its steps' shapes alone.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/linear/linear_chain.h"
#include "kernels/linear/packed_matrix.h"
#include "kernels/simd/amx_layout.h"

namespace fovea::kernels {

// Rows are multiplied in multiples of a register's of AMX.
inline constexpr int64_t kRowsStep = simd::kRegister;
// So many at a time with a block of columns, where oneDNN multiplies: their products then lie in
// L1.
inline constexpr int64_t kProductRows = 128;
// Layers that are deeper are multiplied some of the depth at a time where threads share columns and
// multiply bf16x3: the parts of 32 columns, twice, and the rows' would leave L2.
inline constexpr int64_t kMostDepth = 1024;

// Immutable. Does not outlive the steps.
class ChainLayout {
 public:
  // Of `rows` rows, at least one, in bf16 or fp32, on so many threads.
  ChainLayout(std::span<const LinearStep> steps, bool bf16, int64_t rows, int64_t threads);

  // All threads take one step after the other, each with some of the columns; what lies between two
  // is shared. Otherwise a thread takes a tile of rows through all steps.
  bool by_columns() const { return by_columns_; }
  int64_t tile_rows() const { return tile_rows_; }  // at most; a multiple of kRowsStep

  // Bytes: of what threads share, and then of each thread's scratch.
  int64_t shared_bytes() const { return shared_bytes_; }
  int64_t thread_bytes() const { return thread_bytes_; }
  // Bytes from the beginning of a thread's scratch to its regions, but of what the step i leaves
  // for the next where by_columns(): then from the beginning of what is shared.
  int64_t ResultOffset(size_t i) const { return result_offsets_[i]; }
  int64_t operand_offset() const { return operand_offset_; }
  // What a pair's first step leaves, the hidden layer; not by_columns().
  int64_t hidden_offset() const { return hidden_offset_; }
  // fp32, of what is multiplied some of the depth at a time.
  int64_t sums_offset() const { return sums_offset_; }
  // Sums before bias and activation; with Products::kBf16x3 also the weights' three bf16 parts.
  int64_t products_offset() const { return products_offset_; }

  // Elements from row to row: of what a step multiplies by this matrix, of rows that the step i
  // leaves, and of what a pair's first step i leaves for its second: rows, integers where
  // LeavesInt8(), or one of three planes of bf16 parts (Products::kBf16x3).
  int64_t OperandStride(const PackedMatrix& matrix) const;
  int64_t ResultStride(size_t i) const;
  int64_t HiddenStride(size_t i) const;

  // Whether the steps i and i + 1 have nothing but an activation between them, and what lies
  // between is whole blocks of columns, so that the second reads it where it is.
  bool IsPair(size_t i) const;
  // Whether the step i leaves the integers that step i + 1 multiplies.
  bool LeavesInt8(size_t i) const;
  // Of a pair's first step i, the columns that are computed at a time; whether those are not all.
  int64_t HiddenColumns(size_t i) const;
  bool DividesHidden(size_t i) const { return HiddenColumns(i) < steps_[i].matrix->out(); }
  // Whether a step's products are summed up some of the depth at a time, by columns.
  bool IsDeep(const PackedMatrix& matrix) const;

 private:
  void PlaceRows();
  void PlaceSharedRows();
  int64_t ProductsBytes() const;
  // Of a row.
  int64_t OperandBytes(const PackedMatrix& matrix) const;
  int64_t ResultBytes(size_t i) const;
  int64_t HiddenBytes(size_t i) const;

  const std::span<const LinearStep> steps_;
  const Products products_;
  const bool int8_, amx_;
  const int64_t element_;  // bytes, of rows as they come and go
  const int64_t rows_;
  bool by_columns_ = false;
  int64_t hidden_columns_ = std::numeric_limits<int64_t>::max();
  int64_t tile_rows_ = 0;
  int64_t shared_bytes_ = 0, thread_bytes_ = 0;
  std::vector<int64_t> result_offsets_;
  int64_t operand_offset_ = 0, hidden_offset_ = 0, sums_offset_ = 0, products_offset_ = 0;
};

}  // namespace fovea::kernels
