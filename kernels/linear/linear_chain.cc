#include "kernels/linear/linear_chain.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/attention/shared/cpu_scratch.h"
#include "kernels/linear/cpu_amx.h"
#include "kernels/simd/amx.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"

namespace fovea::kernels {
namespace {

using rows::ConstRows;
using rows::Rows;

// Rows are multiplied in multiples of a tile's of AMX.
constexpr int64_t kRowsStep = 16;
// So many at a time with a block of columns: their products then lie in the first cache.
constexpr int64_t kProductRows = 128;
// What a tile's rows may take of the second cache.
constexpr int64_t kTileBytes = 1600 << 10;
constexpr int64_t kMostTileRows = 256;

int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Elements from row to row: an odd number of cache lines, so that rows do not fall on one another
// in the caches.
int64_t Stride(int64_t columns, int64_t element_bytes) {
  const int64_t line = 64 / element_bytes;
  const int64_t lines = (columns + line - 1) / line;
  return (lines + (lines % 2 == 0 ? 1 : 0)) * line;
}

// The places of a tile's rows in a thread's scratch, in bytes.
struct Layout {
  int64_t bytes = 0;
  int64_t Take(int64_t more) {
    const int64_t begin = bytes;
    bytes += RoundUp(more, 64);
    return begin;
  }
};

class Chain {
 public:
  Chain(std::span<const LinearStep> steps, const at::Tensor& input, const at::Tensor& residual,
        const at::Tensor& output)
      : steps_(steps),
        products_(steps.front().matrix->products()),
        bf16_(products_ == Products::kBf16),
        amx_(products_ != Products::kFp32 && simd::HasAmx() && simd::HasBf16Gemm()),
        element_(bf16_ ? 2 : 4),
        input_(ViewOf(input)),
        residual_(residual.defined() ? ViewOf(residual) : ConstRows{}),
        output_{output.mutable_data_ptr(), output.size(-1)},
        rows_(output.numel() / output.size(-1)) {
    int64_t operand = 0, row_bytes = 0;
    for (const LinearStep& step : steps) {
      // What lies in the scratch is multiplied where it lies.
      const bool copied = &step == &steps.front() || step.norm != nullptr ||
                          step.matrix->in() != step.matrix->depth() ||
                          products_ == Products::kBf16Parts;
      if (copied) operand = std::max(operand, OperandBytes(*step.matrix));
      row_bytes += Stride(step.matrix->out(), element_) * element_;
    }
    const int64_t most = std::min(kMostTileRows, kTileBytes / (operand + row_bytes));
    tile_rows_ = std::max(kRowsStep, most / kRowsStep * kRowsStep);
    tile_rows_ = std::min(tile_rows_, RoundUp(rows_, kRowsStep));
    operand_ = layout_.Take(tile_rows_ * operand);
    products_at_ = layout_.Take(
        (amx_ ? rows::kAmxScratch : std::min(tile_rows_, kProductRows) * PackedMatrix::kBlock) * 4);
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      results_.push_back(
          layout_.Take(tile_rows_ * Stride(steps[i].matrix->out(), element_) * element_));
    }
  }

  void Run() const {
    const int64_t units = (rows_ + kRowsStep - 1) / kRowsStep;
    const int64_t threads = attend::ThreadCount();
    const at::Tensor memory = at::empty({threads, layout_.bytes}, at::kByte);
    char* const base = static_cast<char*>(memory.mutable_data_ptr());
    const auto with_scratch = [&](const auto& work) {
      std::optional<simd::AmxTiles> tiles;
      if (amx_) tiles.emplace();
      work(base + at::get_thread_num() * layout_.bytes);
      if (products_ != Products::kFp32 && !amx_) simd::ReleaseBf16Gemm();
    };
    if (units < threads && steps_.size() == 1) {
      // Too few rows for all threads: each takes some of the columns.
      at::parallel_for(0, steps_[0].matrix->blocks(), 1, [&](int64_t begin, int64_t end) {
        with_scratch([&](char* scratch) { RunTile(0, rows_, {begin, end}, scratch); });
      });
      return;
    }
    at::parallel_for(0, units, 1, [&](int64_t begin, int64_t end) {
      with_scratch([&](char* scratch) {
        // Tiles of one height, as nearly as whole units allow.
        const int64_t most = tile_rows_ / kRowsStep;
        const int64_t tiles = (end - begin + most - 1) / most;
        for (int64_t i = 0; i < tiles; ++i) {
          const int64_t first = (begin + (end - begin) * i / tiles) * kRowsStep;
          const int64_t last = (begin + (end - begin) * (i + 1) / tiles) * kRowsStep;
          RunTile(first, std::min(last, rows_) - first, kAllBlocks, scratch);
        }
      });
    });
  }

 private:
  // Blocks of a matrix's columns.
  struct Blocks {
    int64_t begin, end;
  };
  static constexpr Blocks kAllBlocks = {0, std::numeric_limits<int64_t>::max()};

  ConstRows ViewOf(const at::Tensor& t) const { return {t.const_data_ptr(), t.size(-1)}; }

  ConstRows At(const ConstRows& rows, int64_t row) const {
    return {static_cast<const char*>(rows.data) + row * rows.stride * element_, rows.stride};
  }

  int64_t OperandStride(const PackedMatrix& matrix) const {
    return Stride(matrix.depth(), products_ == Products::kFp32 ? 4 : 2);
  }
  // Of a row.
  int64_t OperandBytes(const PackedMatrix& matrix) const {
    switch (products_) {
      case Products::kFp32:
        return OperandStride(matrix) * 4;
      case Products::kBf16:
        return OperandStride(matrix) * 2;
      case Products::kBf16Parts:
        // Three parts, and the normalised row that they are made of.
        return OperandStride(matrix) * 6 + Stride(matrix.in(), 4) * 4;
    }
    return 0;
  }

  // The rows that a step multiplies.
  struct Operand {
    const void* data;
    int64_t stride;
    int64_t plane;  // elements from part to part
    bool whole;     // whether rows may be read up to a whole tile
  };

  void RunTile(int64_t first, int64_t count, const Blocks& blocks, char* scratch) const {
    ConstRows current = At(input_, first);
    for (size_t i = 0; i < steps_.size(); ++i) {
      const LinearStep& step = steps_[i];
      const Operand operand = PrepareOperand(step, current, count, /*own=*/i > 0, scratch);
      const int64_t out = step.matrix->out();
      Rows to = {static_cast<char*>(output_.data) + first * output_.stride * element_,
                 output_.stride};
      if (i + 1 < steps_.size()) to = {scratch + results_[i], Stride(out, element_)};
      ConstRows residual = {nullptr, 0};
      if (step.residual == Residual::kGiven) residual = At(residual_, first);
      if (step.residual == Residual::kInput) residual = At(input_, first);
      if (step.residual == Residual::kFirst) {
        residual = {scratch + results_[0], Stride(steps_[0].matrix->out(), element_)};
      }
      Multiply(step, operand, count, blocks, scratch, residual, to);
      current = {to.data, to.stride};
    }
  }

  // The rows that a step multiplies: as they are where they can be, else normalised, or split into
  // parts, and up to whole tiles; what is added is zero.
  Operand PrepareOperand(const LinearStep& step, const ConstRows& from, int64_t count, bool own,
                         char* scratch) const {
    const PackedMatrix& matrix = *step.matrix;
    const int64_t in = matrix.in(), stride = OperandStride(matrix);
    const int64_t height = RoundUp(count, kRowsStep);
    char* const operand = scratch + operand_;
    if (products_ == Products::kBf16Parts) {
      ConstRows whole = from;
      auto* const parts = reinterpret_cast<uint16_t*>(operand);
      const int64_t plane = height * stride;
      if (step.norm != nullptr) {
        const Rows normalised = {operand + 3 * plane * 2, Stride(in, 4)};
        rows::Normalise(/*bf16=*/false, from, count, in, *step.norm, normalised);
        whole = {normalised.data, normalised.stride};
      }
      rows::Split(whole, count, in, parts, stride, plane);
      for (int64_t part = 0; part < 3; ++part) {
        Pad(operand + part * plane * 2, 2, in, stride, count, height);
      }
      return {operand, stride, plane, true};
    }
    if (step.norm == nullptr && in == matrix.depth() && (own || !amx_ || count == height)) {
      return {from.data, from.stride, 0, own};
    }
    if (step.norm != nullptr) {
      rows::Normalise(bf16_, from, count, in, *step.norm, {operand, stride});
    } else {
      for (int64_t r = 0; r < count; ++r) {
        std::memcpy(operand + r * stride * element_, At(from, r).data,
                    static_cast<size_t>(in * element_));
      }
    }
    Pad(operand, element_, in, stride, count, height);
    return {operand, stride, 0, true};
  }

  static void Pad(char* rows, int64_t element, int64_t columns, int64_t stride, int64_t count,
                  int64_t height) {
    if (columns < stride) {
      for (int64_t r = 0; r < count; ++r) {
        std::memset(rows + (r * stride + columns) * element, 0,
                    static_cast<size_t>((stride - columns) * element));
      }
    }
    std::memset(rows + count * stride * element, 0,
                static_cast<size_t>((height - count) * stride * element));
  }

  void Multiply(const LinearStep& step, const Operand& operand, int64_t count, const Blocks& blocks,
                char* scratch, const ConstRows& residual, const Rows& to) const {
    const PackedMatrix& matrix = *step.matrix;
    const int64_t end = std::min(blocks.end, matrix.blocks());
    if (amx_) {
      rows::BlockTerms terms;
      terms.count = count;
      terms.activation = step.activation;
      terms.star_scale = step.star_scale;
      terms.star_bias = step.star_bias;
      terms.residual = residual;
      terms.residual_scale = step.residual_scale;
      rows::MultiplyOnAmx(
          {static_cast<const uint16_t*>(operand.data), operand.stride, operand.plane}, matrix,
          terms, blocks.begin, end, reinterpret_cast<float*>(scratch + products_at_), to);
      return;
    }
    float* const products = reinterpret_cast<float*>(scratch + products_at_);
    for (int64_t block = blocks.begin; block < end; ++block) {
      const int64_t column = block * PackedMatrix::kBlock;
      rows::BlockTerms terms;
      terms.products = products;
      terms.columns = std::min(PackedMatrix::kBlock, matrix.out() - column);
      terms.bias = matrix.bias() + column;
      terms.activation = step.activation;
      terms.star_scale = step.star_scale;
      terms.star_bias = step.star_bias;
      if (step.residual_scale != nullptr) terms.residual_scale = step.residual_scale + column;
      for (int64_t r = 0; r < count; r += kProductRows) {
        terms.count = std::min(kProductRows, count - r);
        MultiplyBlock(matrix, block, operand, r,
                      operand.whole ? RoundUp(terms.count, kRowsStep) : terms.count, products);
        if (residual.data != nullptr) {
          terms.residual = {
              static_cast<const char*>(residual.data) + (r * residual.stride + column) * element_,
              residual.stride};
        }
        rows::Finish(
            bf16_, terms,
            {static_cast<char*>(to.data) + (r * to.stride + column) * element_, to.stride});
      }
    }
  }

  void MultiplyBlock(const PackedMatrix& matrix, int64_t block, const Operand& operand, int64_t row,
                     int64_t count, float* products) const {
    const int64_t columns = matrix.Columns(block), depth = matrix.depth();
    const int64_t stride = operand.stride;
    if (products_ == Products::kFp32) {
      simd::Fp32Gemm(count, columns, depth, static_cast<const float*>(operand.data) + row * stride,
                     stride, static_cast<const float*>(matrix.Block(block)), columns, products,
                     PackedMatrix::kBlock);
      return;
    }
    const auto* const a = static_cast<const uint16_t*>(operand.data) + row * stride;
    const auto* const b = static_cast<const uint16_t*>(matrix.Block(block));
    if (products_ == Products::kBf16) {
      simd::Bf16Gemm(count, columns, depth, a, stride, b, columns, products, PackedMatrix::kBlock);
      return;
    }
    // The products that are left out are as small as what fp32 rounds away. Small ones first.
    constexpr struct { int64_t a, b; } kPairs[] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}};
    for (const auto& pair : kPairs) {
      simd::Bf16Gemm(count, columns, depth, a + pair.a * operand.plane, stride,
                     b + pair.b * depth * columns, columns, products, PackedMatrix::kBlock,
                     /*accumulate=*/&pair != kPairs);
    }
  }

  const std::span<const LinearStep> steps_;
  const Products products_;
  const bool bf16_;
  const bool amx_;
  const int64_t element_;  // bytes
  const ConstRows input_, residual_;
  const Rows output_;
  const int64_t rows_;
  int64_t tile_rows_ = 0;
  Layout layout_;
  int64_t operand_ = 0, products_at_ = 0;
  std::vector<int64_t> results_;
};

}  // namespace

at::Tensor RunChain(std::span<const LinearStep> steps, const at::Tensor& input,
                    const at::Tensor& residual) {
  TORCH_INTERNAL_ASSERT(!steps.empty() && input.is_contiguous());
  std::vector<int64_t> shape = input.sizes().vec();
  shape.back() = steps.back().matrix->out();
  at::Tensor output = at::empty(shape, input.options());
  if (output.numel() > 0) Chain(steps, input, residual, output).Run();
  return output;
}

}  // namespace fovea::kernels
