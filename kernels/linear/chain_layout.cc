#include "kernels/linear/chain_layout.h"

#include <algorithm>

#include "kernels/linear/cpu_amx.h"
#include "kernels/linear/cpu_int8.h"

namespace fovea::kernels {
namespace {

using simd::OddLines;
using simd::RoundUp;

constexpr int64_t kMostTileRows = 256;
// Tiles of fewer rows than this have their wide hidden layer computed so many columns at a time.
constexpr int64_t kFewRows = 160;
constexpr int64_t kHiddenColumns = 8 * PackedMatrix::kBlock;
// Weights that are larger are fetched anew by each thread for each tile.
constexpr int64_t kCachedBytes = 1 << 20;
// Of so many rows it takes longer to fetch such weights than to multiply by them.
constexpr int64_t kMostRowsByColumns = 160;
constexpr int64_t kScaleBytes = 4;  // of a row of integers

}  // namespace

ChainLayout::ChainLayout(std::span<const LinearStep> steps, bool bf16, int64_t rows,
                         int64_t threads)
    : steps_(steps),
      products_(steps.front().matrix->products()),
      int8_(products_ == Products::kInt8),
      amx_(steps.front().matrix->packed_for_amx()),
      element_(bf16 ? 2 : 4),
      rows_(rows) {
  int64_t weights = 0;
  for (const LinearStep& step : steps) weights += step.matrix->bytes();
  by_columns_ =
      threads > 1 && (rows <= kRowsStep || (rows <= kMostRowsByColumns && weights > kCachedBytes));
  if (by_columns_) {
    PlaceSharedRows();
    return;
  }
  PlaceRows();
  if (amx_ && !int8_ && tile_rows_ < std::min(kFewRows, RoundUp(rows, kRowsStep))) {
    hidden_columns_ = kHiddenColumns;
    PlaceRows();
  }
}

bool ChainLayout::IsPair(size_t i) const {
  return i + 1 < steps_.size() && steps_[i].residual == Residual::kNone &&
         steps_[i + 1].norm == nullptr && steps_[i].matrix->out() % PackedMatrix::kBlock == 0 &&
         steps_[i + 1].matrix->in() == steps_[i + 1].matrix->depth();
}

bool ChainLayout::LeavesInt8(size_t i) const {
  return int8_ && IsPair(i) && steps_[i + 1].matrix->inverse_input_scales() != nullptr;
}

int64_t ChainLayout::HiddenColumns(size_t i) const {
  return std::min(hidden_columns_, steps_[i].matrix->out());
}

bool ChainLayout::IsDeep(const PackedMatrix& matrix) const {
  return products_ == Products::kBf16x3 && matrix.depth() > kMostDepth;
}

int64_t ChainLayout::OperandStride(const PackedMatrix& matrix) const {
  if (int8_) return OddLines(matrix.depth(), 1);
  return OddLines(matrix.depth(), products_ == Products::kFp32 ? 4 : 2);
}

int64_t ChainLayout::OperandBytes(const PackedMatrix& matrix) const {
  if (products_ == Products::kBf16x3) return OperandStride(matrix) * 6;  // three parts
  if (int8_) return OperandStride(matrix) + kScaleBytes;
  return OperandStride(matrix) * element_;
}

int64_t ChainLayout::ResultStride(size_t i) const {
  return OddLines(steps_[i].matrix->out(), element_);
}

int64_t ChainLayout::ResultBytes(size_t i) const { return ResultStride(i) * element_; }

int64_t ChainLayout::HiddenStride(size_t i) const {
  if (LeavesInt8(i)) return OddLines(HiddenColumns(i), 1);
  return OddLines(HiddenColumns(i), products_ == Products::kBf16x3 ? 2 : element_);
}

int64_t ChainLayout::HiddenBytes(size_t i) const {
  if (LeavesInt8(i)) return HiddenStride(i) + kScaleBytes;
  if (int8_) return HiddenStride(i) * element_ + kScaleBytes;
  return HiddenStride(i) * (products_ == Products::kBf16x3 ? 6 : element_);
}

// Of what is multiplied before it becomes rows, and of what lies there before.
int64_t ChainLayout::ProductsBytes() const {
  if (int8_ && amx_) return rows::kAmxInt8Scratch * 4;
  if (!amx_) return std::min(tile_rows_, kProductRows) * PackedMatrix::kBlock * 4;
  int64_t depth = 0, normalised = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const PackedMatrix& matrix = *steps_[i].matrix;
    const bool deep = by_columns_ && !IsPair(i) && IsDeep(matrix);
    depth = std::max(depth, deep ? kMostDepth : matrix.depth());
    normalised = std::max(normalised, kRowsStep * OddLines(matrix.in(), 4) * 4);
    if (by_columns_ || !IsPair(i)) continue;
    // The second of a pair, which may be multiplied some of the depth at a time.
    depth = std::max(depth, DividesHidden(i) ? HiddenColumns(i) : steps_[i + 1].matrix->depth());
    ++i;
  }
  const int64_t bytes = rows::AmxScratch(products_, depth) * 4;
  return products_ == Products::kBf16x3 ? std::max(bytes, normalised) : bytes;
}

void ChainLayout::PlaceRows() {
  struct Place {
    int64_t* at;
    int64_t row_bytes;
  };
  std::vector<Place> places;
  result_offsets_.assign(steps_.size(), 0);
  int64_t operand = 0, hidden = 0, sums = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const PackedMatrix& matrix = *steps_[i].matrix;
    operand = std::max(operand, OperandBytes(matrix));
    if (IsPair(i)) {
      hidden = std::max(hidden, HiddenBytes(i));
      ++i;
      if (DividesHidden(i - 1)) sums = std::max(sums, OddLines(steps_[i].matrix->out(), 4) * 4);
    }
    if (i + 1 < steps_.size()) places.push_back({&result_offsets_[i], ResultBytes(i)});
  }
  places.push_back({&operand_offset_, operand});
  places.push_back({&hidden_offset_, hidden});
  places.push_back({&sums_offset_, sums});
  int64_t row_bytes = 0;
  for (const Place& place : places) row_bytes += place.row_bytes;
  const int64_t most = std::min(kMostTileRows, (kChainScratch - ProductsBytes()) / row_bytes);
  tile_rows_ =
      std::min(std::max(kRowsStep, most / kRowsStep * kRowsStep), RoundUp(rows_, kRowsStep));
  thread_bytes_ = 0;
  for (const Place& place : places) {
    *place.at = thread_bytes_;
    thread_bytes_ += RoundUp(tile_rows_ * place.row_bytes, 64);
  }
  products_offset_ = thread_bytes_;
  thread_bytes_ += ProductsBytes();
}

void ChainLayout::PlaceSharedRows() {
  tile_rows_ = RoundUp(rows_, kRowsStep);
  result_offsets_.assign(steps_.size(), 0);
  int64_t operand = 0, sums = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const PackedMatrix& matrix = *steps_[i].matrix;
    operand = std::max(operand, OperandBytes(matrix));
    if (IsDeep(matrix)) {
      sums = std::max(sums, OddLines(matrix.blocks() * PackedMatrix::kBlock, 4) * 4);
    }
    if (i + 1 == steps_.size()) break;
    result_offsets_[i] = shared_bytes_;
    const int64_t row_bytes = IsPair(i) ? HiddenBytes(i) : ResultBytes(i);
    shared_bytes_ += RoundUp(tile_rows_ * row_bytes, 64);
  }
  sums_offset_ = RoundUp(tile_rows_ * operand, 64);
  products_offset_ = sums_offset_ + RoundUp(tile_rows_ * sums, 64);
  thread_bytes_ = products_offset_ + ProductsBytes();
}

}  // namespace fovea::kernels
