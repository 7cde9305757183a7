// The CPU implementation, outermost: tensors into raw memory, blocks of rows over threads.
// cpu_blocks.cc has the algorithm.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>

#include "kernels/attention/conv_static_key_attention/cpu_blocks.h"
#include "kernels/attention/conv_static_key_attention/implementations.h"
#include "kernels/attention/shared/cpu_scratch.h"
#include "kernels/attention/shared/cpu_tiles.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/attention/shared/panels_or_tiles.h"
#include "kernels/choice/asked_once.h"
#include "kernels/choice/questions.h"
#include "kernels/simd/amx.h"
#include "kernels/simd/amx_layout.h"
#include "kernels/threads.h"

namespace fovea::kernels {
namespace {

// As a prepared model lays its weights: a tap's channels side by side.
bool HasTapsFirst(const at::Tensor& weight) {
  return weight.is_contiguous(at::MemoryFormat::ChannelsLast);
}

// The scaled bias of every key, [heads, keys]: none for the class token's.
at::Tensor KeyBias(const ConvStaticKeyAttentionInputs& in, int64_t heads, int64_t prefix) {
  const at::Tensor bias = in.bias->to(at::kFloat).view({heads, -1}) * in.scale;
  return at::constant_pad_nd(bias, {prefix, 0}).contiguous();
}

void AttendPanels(const ConvStaticKeyAttentionInputs& in, const at::Tensor& output) {
  const int64_t heads = in.query.size(1), dim = in.query.size(3);
  attend::ConvJob job{};
  job.arithmetic = attend::ChooseArithmetic(in.query, output, 9 * dim);
  job.query = attend::RowsOf(in.query);
  job.value = attend::RowsOf(in.value);
  job.output = attend::RowsOf(output);
  job.heads = heads;
  job.dim = dim;
  job.height = in.grid[0];
  job.width = in.grid[1];
  job.prefix = in.cls_key ? 1 : 0;
  job.scale = static_cast<float>(in.scale);
  job.weighting = attend::TermsOf(in.activation);
  job.block_width = attend::BlockWidth(job.arithmetic);
  job.blocks = (job.tokens() + job.block_width - 1) / job.block_width;

  const at::ScalarType weight_type =
      job.arithmetic == attend::Arithmetic::kBf16Gemm ? at::kBFloat16 : at::kFloat;
  job.taps_first = HasTapsFirst(in.weight);
  const at::Tensor weight = in.weight.to(weight_type)
                                .contiguous(job.taps_first ? at::MemoryFormat::ChannelsLast
                                                           : at::MemoryFormat::Contiguous);
  job.weight = weight.const_data_ptr();
  const at::Tensor cls_key = in.cls_key ? in.cls_key->to(at::kFloat).contiguous() : at::Tensor();
  if (cls_key.defined()) job.cls_key = cls_key.const_data_ptr<float>();
  const at::Tensor bias = in.bias ? KeyBias(in, heads, job.prefix) : at::Tensor();
  if (bias.defined()) job.key_bias = bias.const_data_ptr<float>();

  const int64_t vector = attend::LanesNow();
  attend::ScratchLayout layout;
  const int64_t logits = layout.Take((job.tokens() + 1) * job.block_width);
  const int64_t patches = layout.Take(job.depth() * job.block_width + vector);
  const int64_t workspace = layout.Take(dim * job.block_width);
  const int64_t row_factors = layout.Take(job.block_width);
  const int64_t value = layout.Take((job.tokens() + 1) * dim);
  const int64_t map = layout.Take(dim * job.bordered() + vector);
  const at::Tensor memory = attend::AllocateScratch(layout, ThreadCount());
  float* const base = memory.mutable_data_ptr<float>();

  const int64_t block_cost =
      job.positions() * job.depth() * std::min(job.block_width, job.tokens());
  const int64_t grain = std::max<int64_t>(1, (int64_t{1} << 20) / block_cost);
  at::parallel_for(0, in.query.size(0) * heads * job.blocks, grain,
                   [&](int64_t begin, int64_t end) {
                     float* const own = base + at::get_thread_num() * layout.floats();
                     attend::AttendConvBlocks(job,
                                              {own + logits, own + patches, own + workspace,
                                               own + row_factors, own + value, own + map},
                                              begin, end);
                   });
}

// A head's attention is dense attention of 3x3 patches to the convolution's weights, both with a
// tap's channels side by side: rows of a map with a border of zeros, three pixels at a time.
template <class T>
class Patches {
 public:
  Patches(const std::array<int64_t, 2>& grid, int64_t dim)
      : height_(grid[0]), width_(grid[1]), dim_(dim) {}

  static constexpr int64_t kTaps = 9, kAcross = 3;

  int64_t numbers() const { return MapNumbers() + height_ * width_ * kTaps * dim_; }

  // Those of the tokens [begin, end) of a head, at `scratch`, which holds numbers(); the first
  // token's patch.
  const T* Take(const T* query, int64_t token_stride, int64_t begin, int64_t end,
                T* scratch) const {
    const int64_t first_row = begin / width_, end_row = (end - 1) / width_ + 1;
    T* const patches = scratch + MapNumbers();
    TakeMap(query, token_stride, std::max<int64_t>(first_row - 1, 0),
            std::min(end_row + 1, height_), scratch);
    const int64_t across = kAcross * dim_;
    for (int64_t token = begin; token < end; ++token) {
      const T* from = scratch + (token / width_ * (width_ + 2) + token % width_) * dim_;
      T* to = patches + token * kTaps * dim_;
      for (int64_t y = 0; y < kAcross; ++y, from += (width_ + 2) * dim_, to += across) {
        std::copy_n(from, across, to);
      }
    }
    return patches;
  }

 private:
  int64_t MapNumbers() const { return (height_ + 2) * (width_ + 2) * dim_; }

  // Its rows [begin, end), and the border.
  void TakeMap(const T* query, int64_t token_stride, int64_t begin, int64_t end, T* map) const {
    const int64_t row_numbers = (width_ + 2) * dim_;
    std::fill_n(map, row_numbers, T{});
    std::fill_n(map + (height_ + 1) * row_numbers, row_numbers, T{});
    for (int64_t y = begin; y < end; ++y) {
      T* to = map + (y + 1) * row_numbers;
      std::fill_n(to, dim_, T{});
      to += dim_;
      for (int64_t x = 0; x < width_; ++x, to += dim_) {
        std::copy_n(query + (y * width_ + x) * token_stride, dim_, to);
      }
      std::fill_n(to, dim_, T{});
    }
  }

  const int64_t height_, width_, dim_;
};

// The job of any one head: where its tensors begin is said later.
attend::TokenSetsJob TilesJob(const ConvStaticKeyAttentionInputs& in,
                              attend::Arithmetic arithmetic) {
  attend::TokenSetsJob job{};
  job.arithmetic = arithmetic;
  job.heads = 1;
  job.queries = job.keys = in.grid[0] * in.grid[1];
  job.value_dim = in.query.size(3);
  job.dim = 9 * job.value_dim;
  job.scale = static_cast<float>(in.scale);
  job.block_width = attend::kTileRows;
  job.blocks = (job.queries + job.block_width - 1) / job.block_width;
  job.query.token = job.key.token = job.dim;
  job.bias_key = 1;
  return job;
}

// The tiles' arithmetic where they take a call.
std::optional<attend::Arithmetic> TilesArithmetic(const ConvStaticKeyAttentionInputs& in) {
  const attend::Arithmetic arithmetic = in.query.scalar_type() == at::kFloat
                                            ? attend::Arithmetic::kFp32
                                            : attend::Arithmetic::kBf16Gemm;
  const bool taken = in.activation.kind == ActivationKind::kSoftmax && !in.cls_key &&
                     HasTapsFirst(in.weight) && attend::TakesTiles(TilesJob(in, arithmetic));
  return taken ? std::optional(arithmetic) : std::nullopt;
}

template <class T>
void AttendTiles(const ConvStaticKeyAttentionInputs& in, attend::Arithmetic arithmetic,
                 const at::Tensor& output) {
  const int64_t heads = in.query.size(1), dim = in.query.size(3);
  attend::TokenSetsJob job = TilesJob(in, arithmetic);
  const attend::Rows query = attend::RowsOf(in.query), value = attend::RowsOf(in.value),
                     out = attend::RowsOf(output);
  job.value.token = value.token;
  job.output.token = out.token;
  const auto* const keys = static_cast<const T*>(in.weight.const_data_ptr());
  const at::Tensor bias = in.bias ? KeyBias(in, heads, 0) : at::Tensor();

  const Patches<T> patches(in.grid, dim);
  const int64_t tiles_bytes = attend::TilesScratchBytes(job);
  const int64_t bytes =
      tiles_bytes + (patches.numbers() * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
  const at::Tensor memory = at::empty({ThreadCount(), bytes}, at::kByte);
  char* const scratch = static_cast<char*>(memory.mutable_data_ptr());
  at::parallel_for(0, in.query.size(0) * heads * job.blocks, 1, [&](int64_t begin, int64_t end) {
    const simd::AmxTiles tiles;
    char* const own = scratch + at::get_thread_num() * bytes;
    const auto head_of = [](const attend::Rows& rows, int64_t batch, int64_t head) {
      return static_cast<T*>(rows.data) + batch * rows.batch + head * rows.head;
    };
    while (begin < end) {
      const int64_t index = begin / job.blocks, first = begin % job.blocks;
      const int64_t last = std::min(job.blocks, first + end - begin);
      const int64_t batch = index / heads, head = index % heads;
      const auto begin_of = [&job](int64_t block) {
        return attend::BlockBegin(job.queries, job.blocks, simd::kRegister, block);
      };
      attend::TokenSetsJob one = job;
      one.query.data = const_cast<T*>(patches.Take(
          head_of(query, batch, head), query.token, begin_of(first),
          std::min(begin_of(last), job.queries), reinterpret_cast<T*>(own + tiles_bytes)));
      one.key.data = const_cast<T*>(keys + head * job.keys * job.dim);
      one.value.data = head_of(value, batch, head);
      one.output.data = head_of(out, batch, head);
      if (bias.defined()) one.bias = bias.const_data_ptr<float>() + head * job.keys;
      attend::AttendOnTiles(one, own, first, last);
      begin += last - first;
    }
  });
}

// Two heads of 32 channels on a square grid, in either way.
auto TypicalCall(c10::ScalarType type, int64_t tokens) {
  return [type, tokens, in = std::optional<ConvStaticKeyAttentionInputs>(),
          output = at::Tensor()](AttentionWay way) mutable {
    if (!in) {
      constexpr int64_t kHeads = 2, kDim = 32;
      const int64_t side = std::lround(std::sqrt(tokens));
      const at::Tensor query = TypicalNumbers({1, kHeads, tokens, kDim}, type);
      const at::Tensor weight = TypicalNumbers({kHeads * tokens, kDim, 3, 3}, type)
                                    .contiguous(at::MemoryFormat::ChannelsLast);
      in = {.query = query,
            .value = query,
            .grid = {side, side},
            .weight = weight,
            .activation = {ActivationKind::kSoftmax, 1, 0},
            .scale = 0.125};
      output = at::empty_like(query);
    }
    ConvStaticKeyAttentionCpu(*in, output, way);
  };
}

}  // namespace

AttentionWay FastestConvStaticKeyWay(c10::ScalarType type) {
  constexpr int64_t kAsked = 16 * 16;
  static QuestionsBySize<1> questions("conv_static_key_attention", {kAsked});
  return attend::FasterOfPanelsAndTiles(questions, type, kAsked,
                                        [&](int64_t size) { return TypicalCall(type, size); });
}

void ConvStaticKeyAttentionCpu(const ConvStaticKeyAttentionInputs& in, const at::Tensor& output) {
  ConvStaticKeyAttentionCpu(in, output, FastestConvStaticKeyWay(in.query.scalar_type()));
}

void ConvStaticKeyAttentionCpu(const ConvStaticKeyAttentionInputs& in, const at::Tensor& output,
                               AttentionWay way) {
  if (way == AttentionWay::kTiles) {
    TORCH_INTERNAL_ASSERT(attend::HasAmxTiles());  // which asks the system for them
    if (const auto arithmetic = TilesArithmetic(in)) {
      return in.query.scalar_type() == at::kFloat ? AttendTiles<float>(in, *arithmetic, output)
                                                  : AttendTiles<uint16_t>(in, *arithmetic, output);
    }
  }
  AttendPanels(in, output);
}

}  // namespace fovea::kernels
