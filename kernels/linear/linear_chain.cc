// A thread takes a tile of rows through all steps. What a step leaves lies in the thread's scratch,
// which is as large as L2 allows: the more rows a tile has, the more often a weight is used once it
// is there.
//   Of few rows and large weights every thread would fetch all weights to use them a few times.
// Then all threads take one step after the other, each with some of the columns.
//   Of two layers with nothing but an activation between them, as in an MLP, the first is wide.
//   Where that would leave room for few rows, what it gives (the hidden layer) is computed some
//   columns at a time, whose products with the second layer's weights are summed in fp32.
#include "kernels/linear/linear_chain.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/linear/chain_layout.h"
#include "kernels/linear/cpu_amx.h"
#include "kernels/linear/cpu_int8.h"
#include "kernels/simd/amx.h"
#include "kernels/simd/amx_layout.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/isa.h"
#include "kernels/threads.h"

namespace fovea::kernels {
namespace {

using rows::ConstRows;
using rows::Rows;
using simd::OddLines;
using simd::RoundUp;

// Some of a matrix's blocks of columns.
struct Blocks {
  int64_t begin, end;
};
Blocks AllOf(const PackedMatrix& matrix) { return {0, matrix.blocks()}; }

// The rows that a step multiplies.
struct Operand {
  const void* data;
  int64_t stride;                 // elements
  int64_t plane;                  // from part to part, of Products::kBf16x3
  bool whole;                     // whether they are readable up to a multiple of kRowsStep
  const float* scales = nullptr;  // of 8-bit rows
};

class Chain {
 public:
  Chain(std::span<const LinearStep> steps, const at::Tensor& input, const at::Tensor& residual,
        const at::Tensor& output)
      : steps_(steps),
        kind_(steps.front().matrix->products()),
        bf16_(input.scalar_type() == at::kBFloat16),
        int8_(kind_ == Products::kInt8),
        amx_(steps.front().matrix->packed_for_amx()),
        element_(bf16_ ? 2 : 4),
        input_(ViewOf(input)),
        residual_(residual.defined() ? ViewOf(residual) : ConstRows{}),
        output_{output.mutable_data_ptr(), output.size(-1)},
        rows_(output.numel() / output.size(-1)),
        layout_(steps, bf16_, rows_, ThreadCount()) {}

  void Run() const {
    const int64_t units = (rows_ + kRowsStep - 1) / kRowsStep;
    const int64_t shared_bytes = layout_.shared_bytes(), bytes = layout_.thread_bytes();
    const at::Tensor memory = at::empty({shared_bytes + ThreadCount() * bytes}, at::kByte);
    char* const shared = static_cast<char*>(memory.mutable_data_ptr());
    const auto with_scratch = [&](const auto& work) {
      std::optional<simd::AmxTiles> tiles;
      if (amx_) tiles.emplace();
      work(shared + shared_bytes + at::get_thread_num() * bytes);
      if (kind_ != Products::kFp32 && !int8_ && !amx_) simd::ReleaseBf16Gemm();
    };
    if (layout_.by_columns()) {
      RunByColumns(shared, with_scratch);
      return;
    }
    at::parallel_for(0, units, 1, [&](int64_t begin, int64_t end) {
      with_scratch([&](char* scratch) {
        // Tiles of one height, as nearly as whole units allow.
        const int64_t most = layout_.tile_rows() / kRowsStep;
        const int64_t tiles = (end - begin + most - 1) / most;
        for (int64_t i = 0; i < tiles; ++i) {
          const int64_t first = (begin + (end - begin) * i / tiles) * kRowsStep;
          const int64_t last = (begin + (end - begin) * (i + 1) / tiles) * kRowsStep;
          RunTile(first, std::min(last, rows_) - first, scratch);
        }
      });
    });
  }

 private:
  static ConstRows ViewOf(const at::Tensor& t) { return {t.const_data_ptr(), t.size(-1)}; }

  ConstRows At(const ConstRows& rows, int64_t row, int64_t column = 0) const {
    return {static_cast<const char*>(rows.data) + (row * rows.stride + column) * element_,
            rows.stride};
  }
  Rows At(const Rows& rows, int64_t row, int64_t column = 0) const {
    return {static_cast<char*>(rows.data) + (row * rows.stride + column) * element_, rows.stride,
            rows.plane};
  }

  // One step after the other; what lies between two is shared by the threads.
  template <class WithScratch>
  void RunByColumns(char* shared, const WithScratch& with_scratch) const {
    ConstRows current = input_;
    Operand hidden = {};  // a pair's first step's, in bf16 parts or s8
    for (size_t i = 0; i < steps_.size(); ++i) {
      const LinearStep& step = steps_[i];
      const bool pair = layout_.IsPair(i), leaves = layout_.LeavesInt8(i);
      const bool split = kind_ == Products::kBf16x3 && pair;
      Rows to = output_;
      if (i + 1 < steps_.size()) {
        to = {shared + layout_.ResultOffset(i),
              pair ? layout_.HiddenStride(i) : layout_.ResultStride(i)};
      }
      if (split) to.plane = RoundUp(rows_, kRowsStep) * to.stride;
      float* const scales = leaves ? ScalesBehind(to.data, rows_, to.stride) : nullptr;
      at::parallel_for(0, step.matrix->blocks(), 1, [&](int64_t begin, int64_t end) {
        with_scratch([&](char* scratch) {
          const Operand operand = hidden.data != nullptr
                                      ? hidden
                                      : PrepareOperand(step, current, rows_, i > 0, scratch);
          const ConstRows residual = ResidualOf(step, 0, shared);
          if (!split && layout_.IsDeep(*step.matrix)) {
            MultiplyDeep(step, operand, {begin, end}, residual, to, scratch);
            return;
          }
          if (leaves && begin == 0) MarkRows(operand, rows_, scales);
          Multiply(step, operand, rows_, {begin, end}, residual, to, scratch,
                   leaves ? &steps_[i + 1] : nullptr);
        });
      });
      hidden = split || leaves ? Operand{to.data, to.stride, to.plane, true, scales} : Operand{};
      current = {to.data, to.stride};
    }
  }

  // Multiply for a step that ChainLayout::IsDeep, of all rows; what it leaves is rows of fp32.
  void MultiplyDeep(const LinearStep& step, const Operand& operand, const Blocks& blocks,
                    const ConstRows& residual, const Rows& to, char* scratch) const {
    const int64_t depth = step.matrix->depth();
    const int64_t stride = OddLines((blocks.end - blocks.begin) * PackedMatrix::kBlock, 4);
    float* const sums = ClearedSums(rows_, stride, scratch);
    for (int64_t k = 0; k < depth; k += kMostDepth) {
      rows::AmxOperand rows_from = AmxOperandOf(operand);
      rows_from.data += k;
      rows::AccumulateOnAmx(
          rows_from, *step.matrix, blocks.begin, blocks.end, k, std::min(kMostDepth, depth - k),
          rows_, reinterpret_cast<float*>(scratch + layout_.products_offset()), sums, stride);
    }
    FinishSums(step, sums, stride, rows_, blocks, residual, to);
  }

  // Room for the sums of `count` rows, zero.
  float* ClearedSums(int64_t count, int64_t stride, char* scratch) const {
    float* const sums = reinterpret_cast<float*>(scratch + layout_.sums_offset());
    std::memset(sums, 0, static_cast<size_t>(RoundUp(count, kRowsStep) * stride * 4));
    return sums;
  }

  // to = what a step makes of the sums of its products in these blocks, which begin with the first
  // of them.
  void FinishSums(const LinearStep& step, const float* sums, int64_t stride, int64_t count,
                  const Blocks& blocks, const ConstRows& residual, const Rows& to) const {
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      rows::BlockTerms terms = TermsOf(step, block, residual);
      terms.products = sums + (block - blocks.begin) * PackedMatrix::kBlock;
      terms.products_stride = stride;
      terms.count = count;
      rows::Finish(bf16_, terms, At(to, 0, block * PackedMatrix::kBlock));
    }
  }

  void RunTile(int64_t first, int64_t count, char* scratch) const {
    ConstRows current = At(input_, first);
    for (size_t i = 0; i < steps_.size(); ++i) {
      const size_t last = layout_.IsPair(i) ? i + 1 : i;
      const Rows to = last + 1 < steps_.size()
                          ? Rows{scratch + layout_.ResultOffset(last), layout_.ResultStride(last)}
                          : At(output_, first);
      if (last > i) {
        RunPair(i, current, first, count, to, scratch);
      } else {
        RunStep(i, current, first, count, AllOf(*steps_[i].matrix), to, scratch);
      }
      i = last;
      current = {to.data, to.stride};
    }
  }

  void RunStep(size_t i, const ConstRows& from, int64_t first, int64_t count, const Blocks& blocks,
               const Rows& to, char* scratch) const {
    const LinearStep& step = steps_[i];
    const Operand operand = PrepareOperand(step, from, count, /*whole=*/i > 0, scratch);
    Multiply(step, operand, count, blocks, ResidualOf(step, first, scratch), to, scratch);
  }

  void RunPair(size_t i, const ConstRows& from, int64_t first, int64_t count, const Rows& to,
               char* scratch) const {
    const LinearStep &step = steps_[i], &next = steps_[i + 1];
    const Operand operand = PrepareOperand(step, from, count, /*whole=*/i > 0, scratch);
    const ConstRows residual = ResidualOf(next, first, scratch);
    if (int8_) {
      const Operand hidden =
          RunInt8Hidden(i, operand, count, scratch + layout_.hidden_offset(), scratch);
      Multiply(next, hidden, count, AllOf(*next.matrix), residual, to, scratch);
      return;
    }
    const int64_t columns = layout_.HiddenColumns(i);
    // The hidden layer's rows, the second one's operand.
    const int64_t stride_of_hidden = layout_.HiddenStride(i);
    const int64_t plane =
        kind_ == Products::kBf16x3 ? RoundUp(count, kRowsStep) * stride_of_hidden : 0;
    const Rows rows_of_hidden = {scratch + layout_.hidden_offset(), stride_of_hidden, plane};
    const Operand hidden = {rows_of_hidden.data, stride_of_hidden, plane, true};
    if (!layout_.DividesHidden(i)) {
      Multiply(step, operand, count, AllOf(*step.matrix), {}, rows_of_hidden, scratch);
      Multiply(next, hidden, count, AllOf(*next.matrix), residual, to, scratch);
      return;
    }
    const int64_t blocks = columns / PackedMatrix::kBlock;
    const int64_t stride = OddLines(next.matrix->out(), 4);
    float* const sums = ClearedSums(count, stride, scratch);
    for (int64_t block = 0; block < step.matrix->blocks(); block += blocks) {
      const Blocks some = {block, std::min(block + blocks, step.matrix->blocks())};
      Rows shifted = rows_of_hidden;  // where column 0 would be
      shifted.data = static_cast<char*>(rows_of_hidden.data) -
                     block * PackedMatrix::kBlock * (plane != 0 ? 2 : element_);
      Multiply(step, operand, count, some, {}, shifted, scratch);
      rows::AccumulateOnAmx(
          AmxOperandOf(hidden), *next.matrix, 0, next.matrix->blocks(),
          block * PackedMatrix::kBlock, (some.end - some.begin) * PackedMatrix::kBlock, count,
          reinterpret_cast<float*>(scratch + layout_.products_offset()), sums, stride);
    }
    FinishSums(next, sums, stride, count, AllOf(*next.matrix), residual, to);
  }

  ConstRows ResidualOf(const LinearStep& step, int64_t first, const char* results) const {
    switch (step.residual) {
      case Residual::kNone:
        break;
      case Residual::kGiven:
        return At(residual_, first);
      case Residual::kInput:
        return At(input_, first);
      case Residual::kFirst:
        return {results + layout_.ResultOffset(0), layout_.ResultStride(0)};
    }
    return {};
  }

  // A pair's first step in 8 bits: its result as the operand of the second, at `memory`.
  Operand RunInt8Hidden(size_t i, const Operand& operand, int64_t count, char* memory,
                        char* scratch) const {
    const LinearStep &step = steps_[i], &next = steps_[i + 1];
    const int64_t out = step.matrix->out(), height = RoundUp(count, kRowsStep);
    const bool leaves = layout_.LeavesInt8(i);
    const Rows to = {memory, layout_.HiddenStride(i)};
    const int64_t stride = leaves ? to.stride : to.stride * element_;
    const rows::Int8Rows hidden = {reinterpret_cast<int8_t*>(memory), stride,
                                   ScalesBehind(memory, height, stride)};
    Multiply(step, operand, count, AllOf(*step.matrix), {}, to, scratch, leaves ? &next : nullptr);
    if (leaves) {
      MarkRows(operand, count, hidden.scales);
    } else {
      // In place: a row's integers are fewer bytes than what they are made of.
      rows::Quantise(bf16_, {to.data, to.stride}, count, out, nullptr, nullptr, hidden);
    }
    Pad(memory, 1, stride, stride, count, height);
    return {memory, stride, 0, true, hidden.scales};
  }

  // Where the scales of `count` rows of integers lie.
  static float* ScalesBehind(void* rows, int64_t count, int64_t stride) {
    return reinterpret_cast<float*>(static_cast<char*>(rows) + RoundUp(count, kRowsStep) * stride);
  }

  // Scales of rows that were made of `operand` with scales for their channels: one, but what was
  // NaN is.
  static void MarkRows(const Operand& operand, int64_t count, float* scales) {
    for (int64_t r = 0; r < count; ++r) {
      scales[r] = std::isnan(operand.scales[r]) ? operand.scales[r] : 1;
    }
  }

  // The rows that a step multiplies: as they are where they can be, else normalised, or split into
  // three bf16 parts, and up to whole registers; what is added is zero. `whole`: `from` can be read
  // up to a multiple of kRowsStep, as what a step has left can.
  Operand PrepareOperand(const LinearStep& step, const ConstRows& from, int64_t count, bool whole,
                         char* scratch) const {
    const PackedMatrix& matrix = *step.matrix;
    const int64_t in = matrix.in(), stride = layout_.OperandStride(matrix);
    const int64_t height = RoundUp(count, kRowsStep);
    char* const operand = scratch + layout_.operand_offset();
    if (int8_) {
      const rows::Int8Rows to = {reinterpret_cast<int8_t*>(operand), stride,
                                 ScalesBehind(operand, count, stride)};
      rows::Quantise(bf16_, from, count, in, step.norm, matrix.inverse_input_scales(), to);
      Pad(operand, 1, in, stride, count, height);
      return {operand, stride, 0, true, to.scales};
    }
    if (kind_ == Products::kBf16x3) {
      auto* const parts = reinterpret_cast<uint16_t*>(operand);
      const int64_t plane = height * stride;
      if (step.norm != nullptr) {
        // A few rows at a time, where the weights' parts will lie.
        const Rows normalised = {scratch + layout_.products_offset(), OddLines(in, 4)};
        for (int64_t r = 0; r < count; r += kRowsStep) {
          const int64_t some = std::min(kRowsStep, count - r);
          rows::Normalise(/*bf16=*/false, At(from, r), some, in, *step.norm, normalised);
          rows::Split({normalised.data, normalised.stride}, some, in, parts + r * stride, stride,
                      plane);
        }
      } else {
        rows::Split(from, count, in, parts, stride, plane);
      }
      for (int64_t part = 0; part < 3; ++part) {
        Pad(operand + part * plane * 2, 2, in, stride, count, height);
      }
      return {operand, stride, plane, true};
    }
    if (step.norm == nullptr && in == matrix.depth() && (whole || !amx_ || count == height)) {
      return {from.data, from.stride, 0, whole};
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

  // What is done to a block's products; `residual` begins with column 0.
  rows::BlockTerms TermsOf(const LinearStep& step, int64_t block, const ConstRows& residual) const {
    const PackedMatrix& matrix = *step.matrix;
    const int64_t column = block * PackedMatrix::kBlock;
    rows::BlockTerms terms;
    terms.columns = std::min(PackedMatrix::kBlock, matrix.out() - column);
    terms.bias = matrix.bias() + column;
    terms.activation = step.activation;
    terms.star_scale = step.star_scale;
    terms.star_bias = step.star_bias;
    if (residual.data != nullptr) terms.residual = At(residual, 0, column);
    if (step.residual_scale != nullptr) terms.residual_scale = step.residual_scale + column;
    return terms;
  }

  // to = what a step makes of its operand, in these blocks of columns. `next`: the step whose
  // integers it leaves (LeavesInt8), or null.
  void Multiply(const LinearStep& step, const Operand& operand, int64_t count, const Blocks& blocks,
                const ConstRows& residual, const Rows& to, char* scratch,
                const LinearStep* next = nullptr) const {
    if (int8_) {
      MultiplyInt8(step, operand, count, blocks, residual, to, scratch, next);
      return;
    }
    float* const products = reinterpret_cast<float*>(scratch + layout_.products_offset());
    if (amx_) {
      rows::BlockTerms terms = TermsOf(step, 0, residual);
      terms.count = count;
      rows::MultiplyOnAmx(AmxOperandOf(operand), *step.matrix, terms, blocks.begin, blocks.end,
                          products, to);
      return;
    }
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      rows::BlockTerms terms = TermsOf(step, block, residual);
      terms.products = products;
      terms.products_stride = PackedMatrix::kBlock;
      const ConstRows added = terms.residual;
      for (int64_t r = 0; r < count; r += kProductRows) {
        terms.count = std::min(kProductRows, count - r);
        const int64_t height = operand.whole ? RoundUp(terms.count, kRowsStep) : terms.count;
        MultiplyBlock(*step.matrix, block, operand, r, height, products);
        if (added.data != nullptr) terms.residual = At(added, r);
        rows::Finish(bf16_, terms, At(to, r, block * PackedMatrix::kBlock));
      }
    }
  }

  void MultiplyInt8(const LinearStep& step, const Operand& operand, int64_t count,
                    const Blocks& blocks, const ConstRows& residual, const Rows& to, char* scratch,
                    const LinearStep* next) const {
    auto* const products = reinterpret_cast<int32_t*>(scratch + layout_.products_offset());
    const rows::ConstInt8Rows rows = {static_cast<const int8_t*>(operand.data), operand.stride,
                                      operand.scales};
    const float* const inverse = next != nullptr ? next->matrix->inverse_input_scales() : nullptr;
    rows::Int8Terms terms;
    terms.inverse = inverse;
    if (amx_) {
      terms.block = TermsOf(step, 0, residual);
      terms.block.count = count;
      rows::MultiplyInt8OnAmx(rows, *step.matrix, terms, blocks.begin, blocks.end, products, to);
      return;
    }
    terms.products = products;
    terms.products_stride = PackedMatrix::kBlock;
    for (int64_t block = blocks.begin; block < blocks.end; ++block) {
      const int64_t column = block * PackedMatrix::kBlock;
      terms.block = TermsOf(step, block, residual);
      terms.column_scales = step.matrix->scales() + column;
      if (inverse != nullptr) terms.inverse = inverse + column;
      const ConstRows added = terms.block.residual;
      for (int64_t r = 0; r < count; r += kProductRows) {
        terms.block.count = std::min(kProductRows, count - r);
        terms.row_scales = rows.scales + r;
        rows::MultiplyInt8({rows.data + r * rows.stride, rows.stride, nullptr}, terms.block.count,
                           *step.matrix, block, products);
        if (added.data != nullptr) terms.block.residual = At(added, r);
        Rows place = At(to, r, column);
        if (inverse != nullptr) {
          place.data = static_cast<int8_t*>(to.data) + r * to.stride + column;
        }
        rows::FinishInt8(bf16_, terms, place);
      }
    }
  }

  // By oneDNN.
  void MultiplyBlock(const PackedMatrix& matrix, int64_t block, const Operand& operand, int64_t row,
                     int64_t count, float* products) const {
    const int64_t columns = matrix.Columns(block), depth = matrix.depth();
    const int64_t stride = operand.stride;
    if (kind_ == Products::kFp32) {
      simd::Fp32Gemm(count, columns, depth, static_cast<const float*>(operand.data) + row * stride,
                     stride, static_cast<const float*>(matrix.Block(block)), columns, products,
                     PackedMatrix::kBlock);
    } else {
      simd::Bf16Gemm(count, columns, depth,
                     static_cast<const uint16_t*>(operand.data) + row * stride, stride,
                     static_cast<const uint16_t*>(matrix.Block(block)), columns, products,
                     PackedMatrix::kBlock);
    }
  }

  static rows::AmxOperand AmxOperandOf(const Operand& operand) {
    return {static_cast<const uint16_t*>(operand.data), operand.stride, operand.plane};
  }

  const std::span<const LinearStep> steps_;
  const Products kind_;
  const bool bf16_;  // rows, as they come and go
  const bool int8_;
  const bool amx_;
  const int64_t element_;  // bytes
  const ConstRows input_, residual_;
  const Rows output_;
  const int64_t rows_;
  const ChainLayout layout_;
};

}  // namespace

at::Tensor RunChain(std::span<const LinearStep> steps, const at::Tensor& input,
                    const at::Tensor& residual) {
  // For who watches operators: it is none of the dispatcher's.
  RECORD_FUNCTION("fovea::linear_chain", c10::ArrayRef<const c10::IValue>());
  TORCH_INTERNAL_ASSERT(!steps.empty() && input.is_contiguous());
  TORCH_INTERNAL_ASSERT(steps.front().matrix->products() != Products::kInt8 ||
                        !steps.front().matrix->packed_for_amx() ||
                        input.scalar_type() == at::kBFloat16);
  // Whose conversions AVX-512's code has by instructions of their own.
  TORCH_INTERNAL_ASSERT(input.scalar_type() != at::kBFloat16 ||
                        simd::CurrentIsa() != simd::Isa::kAvx512 || simd::HasBf16Instructions());
  std::vector<int64_t> shape = input.sizes().vec();
  shape.back() = steps.back().matrix->out();
  at::Tensor output = at::empty(shape, input.options());
  if (output.numel() > 0) Chain(steps, input, residual, output).Run();
  return output;
}

}  // namespace fovea::kernels
