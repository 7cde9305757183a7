// Convolutional static-key attention on the CPU: an implicit matrix product. A block's 3x3 patches
// are its queries, 9 * head_dim long, and the convolution's weights the keys, as they lie: logits
// exist for one block of rows at a time.
//
// The map is kept once per head, a channel after the other, with a border of zeros: a tap of a
// patch is then a shifted row of the map, copied as vectors.
#include "kernels/attention/conv_static_key_attention/cpu_blocks.h"

#include <cstdint>
#include <cstring>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/conv_static_key_attention/cpu_blocks.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/shared/cpu_panels-inl.h"
#include "kernels/attention/shared/cpu_token_sets-inl.h"
#include "kernels/attention/shared/cpu_weights-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

using attend::ConvJob;
using attend::ConvScratch;

constexpr int kTaps = 9;

const void* TokenOf(const ConvJob& job, const Rows& rows, const Block& block, int64_t token) {
  const int64_t element = block.batch * rows.batch + block.head * rows.head + token * rows.token;
  return static_cast<const char*>(rows.data) +
         element * (job.arithmetic == Arithmetic::kFp32 ? 4 : 2);
}

float ChannelOf(const ConvJob& job, const void* token, int64_t c) {
  if (job.arithmetic == Arithmetic::kFp32) return static_cast<const float*>(token)[c];
  return Bf16At(static_cast<const uint16_t*>(token)[c]);
}

// A head's map, channels first, into the border of zeros that `map` has already.
void TakeMap(const ConvJob& job, const Block& block, float* map) {
  for (int64_t y = 0; y < job.height; ++y) {
    float* const row = map + (y + 1) * (job.width + 2) + 1;
    for (int64_t x = 0; x < job.width; ++x) {
      const void* token = TokenOf(job, job.query, block, job.prefix + y * job.width + x);
      for (int64_t c = 0; c < job.dim; ++c) row[c * job.bordered() + x] = ChannelOf(job, token, c);
    }
  }
}

// The rows of a block that lie on one row of the map.
struct Segment {
  int64_t lane;  // the first one's
  int64_t count;
  int64_t place;  // its upper left neighbour's on the bordered map
};

// Calls visit(segment) for the block's rows that are positions of the map, in order.
template <class Visit>
void ForSegments(const ConvJob& job, const Block& block, const Visit& visit) {
  int64_t lane = block.first < job.prefix ? job.prefix - block.first : 0;
  while (lane < block.rows) {
    const int64_t position = block.first + lane - job.prefix;
    const int64_t y = position / job.width;
    const int64_t x = position % job.width;
    const int64_t left = block.rows - lane;
    const int64_t count = job.width - x < left ? job.width - x : left;
    visit(Segment{lane, count, y * (job.width + 2) + x});
    lane += count;
  }
}

// Of the k-th term of a logit, as the weights have them.
int64_t ChannelAt(const ConvJob& job, int64_t k) {
  return job.taps_first ? k % job.dim : k / kTaps;
}
int64_t TapAt(const ConvJob& job, int64_t k) { return job.taps_first ? k / job.dim : k % kTaps; }

// The block's patches, transposed: a row for each term, as fp32 or as pairs of bf16. Vectors may
// run over a segment's end, into what is written after it.
template <bool kPairs>
void TakePatches(const ConvJob& job, const Block& block, const float* map, float* patches) {
  const DF d;
  const hn::RebindToUnsigned<DF> du;
  int64_t offsets[kTaps];
  for (int tap = 0; tap < kTaps; ++tap) offsets[tap] = tap / 3 * (job.width + 2) + tap % 3;
  const auto tap_at = [&](int64_t k) HWY_ATTR {
    return map + ChannelAt(job, k) * job.bordered() + offsets[TapAt(job, k)];
  };
  const int64_t rows = kPairs ? job.depth() / 2 : job.depth();
  for (int64_t k = 0; k < rows; ++k) {
    const float* const first = tap_at(kPairs ? 2 * k : k);
    const float* const second = kPairs ? tap_at(2 * k + 1) : nullptr;
    float* const to = patches + k * block.width;
    ForSegments(job, block, [&](const Segment& segment) HWY_ATTR {
      for (int64_t i = 0; i < segment.count; i += kLanes) {
        const VF x = hn::LoadU(d, first + segment.place + i);
        if constexpr (kPairs) {
          const VF y = hn::LoadU(d, second + segment.place + i);
          hn::StoreU(hn::BitCast(d, PairBf16(hn::BitCast(du, x), hn::BitCast(du, y))), d,
                     to + segment.lane + i);
        } else {
          hn::StoreU(x, d, to + segment.lane + i);
        }
      }
    });
  }
}

// The class token is a map of one position: nothing but its centre taps.
template <bool kPairs>
void TakeClassPatch(const ConvJob& job, const Block& block, float* patches) {
  const void* token = TokenOf(job, job.query, block, 0);
  uint32_t* const words = reinterpret_cast<uint32_t*>(patches);
  const int64_t rows = kPairs ? job.depth() / 2 : job.depth();
  for (int64_t k = 0; k < rows; ++k) words[k * block.width] = 0;
  for (int64_t c = 0; c < job.dim; ++c) {
    const int64_t k = job.taps_first ? kTaps / 2 * job.dim + c : c * kTaps + kTaps / 2;
    const float x = ChannelOf(job, token, c);
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof(bits));
    if constexpr (kPairs) {
      words[k / 2 * block.width] |= k % 2 == 0 ? bits >> 16 : bits;
    } else {
      words[k * block.width] = bits;
    }
  }
}

template <bool kPairs>
void TakeBlock(const ConvJob& job, const Block& block, const float* map, float* patches) {
  TakePatches<kPairs>(job, block, map, patches);
  if (block.first < job.prefix) TakeClassPatch<kPairs>(job, block, patches);
  RepeatLastRow(reinterpret_cast<uint32_t*>(patches), block.width, block.rows,
                kPairs ? job.depth() / 2 : job.depth());
}

// query . cls_key for a block's rows.
void TakeClassLogits(const ConvJob& job, const Block& block, float* logits) {
  const float* key = job.cls_key + block.head * job.dim;
  for (int64_t r = 0; r < block.width; ++r) {
    const int64_t row = r < block.rows ? r : block.rows - 1;
    const void* token = TokenOf(job, job.query, block, block.first + row);
    float sum = 0.0f;
    for (int64_t c = 0; c < job.dim; ++c) sum += ChannelOf(job, token, c) * key[c];
    logits[r] = sum;
  }
}

}  // namespace

void AttendConvBlocks(const ConvJob& job, const ConvScratch& scratch, int64_t begin, int64_t end) {
  const int64_t positions = job.positions();
  Panel panel{};
  panel.arithmetic = job.arithmetic;
  panel.keys = job.tokens();
  panel.depth = job.depth();
  panel.dim = job.dim;
  panel.query = scratch.patches;
  panel.logits = scratch.logits;
  panel.row_factors = scratch.row_factors;
  panel.output = scratch.output;
  const bool pairs = job.arithmetic == Arithmetic::kBf16Gemm;
  const int64_t weight_bytes = pairs ? 2 : 4;
  std::memset(scratch.map, 0, (job.dim * job.bordered() + kLanes) * sizeof(float));

  for (int64_t index = begin; index < end; ++index) {
    const Block block = BlockAt(job.tokens(), job.blocks, job.heads, index);
    panel.rows = block.rows;
    panel.width = block.width;
    if (index == begin || block.first == 0) {
      TakeMap(job, block, scratch.map);
      TakeValues(TokenOf(job, job.value, block, 0), job.value.token, Staged{nullptr, scratch.value},
                 panel);
    }
    if (pairs) {
      TakeBlock<true>(job, block, scratch.map, scratch.patches);
    } else {
      TakeBlock<false>(job, block, scratch.map, scratch.patches);
    }
    // The map's keys, after the class token's.
    Panel convolution = panel;
    convolution.keys = positions;
    convolution.logits = panel.logits + job.prefix * panel.width;
    convolution.key =
        static_cast<const char*>(job.weight) + block.head * positions * job.depth() * weight_bytes;
    convolution.key_stride = job.depth();
    MultiplyByKeys(convolution);
    if (job.prefix > 0) TakeClassLogits(job, block, panel.logits);

    LogitTerms terms{.scale = job.scale};
    if (job.key_bias != nullptr) {
      terms.key_bias = job.key_bias + block.head * job.tokens();
      terms.key_bias_stride = 1;
    }
    WeighPanel(panel, terms, job.weighting);
    MultiplyByValues(panel, const_cast<void*>(TokenOf(job, job.output, block, block.first)),
                     job.output.token);
  }
  if (pairs) simd::ReleaseBf16Gemm();
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::attend {

void AttendConvBlocks(const ConvJob& job, const ConvScratch& scratch, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(AttendConvBlocks)(job, scratch, begin, end);
}

}  // namespace fovea::kernels::attend
#endif  // HWY_ONCE
