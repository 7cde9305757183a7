// The CPU implementation, outermost: panels or tiles, and for panels tensors into raw memory,
// blocks of rows over threads. cpu_blocks.cc has the algorithm of panels, cpu_tiles.cc that of
// tiles.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "kernels/attention/conv_static_key_attention/cpu_blocks.h"
#include "kernels/attention/conv_static_key_attention/cpu_tiles.h"
#include "kernels/attention/conv_static_key_attention/implementations.h"
#include "kernels/attention/shared/cpu_scratch.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/attention/shared/panels_or_tiles.h"
#include "kernels/choice/questions.h"
#include "kernels/threads.h"

namespace fovea::kernels {
namespace {

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
  job.taps_first = in.weight.is_contiguous(at::MemoryFormat::ChannelsLast);
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
  static attend::PanelsOrTiles<1> questions("conv_static_key_attention", {kAsked});
  return questions.Faster(type, kAsked, [&](int64_t size) { return TypicalCall(type, size); });
}

void ConvStaticKeyAttentionCpu(const ConvStaticKeyAttentionInputs& in, const at::Tensor& output) {
  ConvStaticKeyAttentionCpu(in, output, FastestConvStaticKeyWay(in.query.scalar_type()));
}

void ConvStaticKeyAttentionCpu(const ConvStaticKeyAttentionInputs& in, const at::Tensor& output,
                               AttentionWay way) {
  if (attend::ByTiles(way, in)) {
    const at::Tensor bias = in.bias ? KeyBias(in, in.query.size(1), 0) : at::Tensor();
    return attend::AttendConvOnTiles(in, bias, output);
  }
  AttendPanels(in, output);
}

}  // namespace fovea::kernels
