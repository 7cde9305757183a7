// Key-only attention on the CPU: sums over chunks of tokens, and the product.
//
// The keys are read once. A block of them gives its logits, then, from the first-level cache, its
// weighted sum; a running maximum keeps the weights in range, and what was summed is scaled down
// when a block exceeds it. All heads of a block are done before the next: for keys laid out
// [batch, tokens, heads, dim], as a projection leaves them, or shared by the heads, that is one
// sweep through memory. Partial sums of chunks are merged in cpu.cc. bf16 is widened block by
// block.
#include "kernels/attention/key_only_attention/cpu_tokens.h"

#include <cstdint>
#include <limits>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/key_only_attention/cpu_tokens.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/exp-inl.h"
#include "kernels/simd/isa.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

using key_only::ContextJob;
using key_only::kBlock;
using key_only::ProductJob;

using DF = hn::ScalableTag<float>;
using VF = hn::Vec<DF>;
constexpr int64_t kLanes = HWY_TARGET == HWY_AVX3 ? 16 : 8;
static_assert(kBlock % kLanes == 0, "a block's logits are whole vectors");

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLog2E = 1.44269504f;

// Rows of `dim` contiguous floats, `stride` apart.
struct RowsF {
  const float* data;
  int64_t stride;
  int64_t count;
  int64_t dim;
};

// The sums of four vectors' lanes.
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> SumsOfLanes(VF a, VF b, VF c, VF e) {
  const DF d;
  const hn::RepartitionToWide<DF> d64;
  const VF ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const VF ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto ab64 = hn::BitCast(d64, ab);
  const auto ce64 = hn::BitCast(d64, ce);
  const VF sums = hn::Add(hn::BitCast(d, hn::InterleaveLower(d64, ab64, ce64)),
                          hn::BitCast(d, hn::InterleaveUpper(d64, ab64, ce64)));
  const hn::FixedTag<float, 8> d8;
  const hn::FixedTag<float, 4> d4;
#if HWY_TARGET == HWY_AVX3
  const auto half = hn::Add(hn::LowerHalf(d8, sums), hn::UpperHalf(d8, sums));
#else
  (void)d8;
  const auto half = sums;
#endif
  return hn::Add(hn::LowerHalf(d4, half), hn::UpperHalf(d4, half));
}

// out[i] = row i . factors, for eight rows; what lies after the last row is not read.
HWY_INLINE void DotEight(const RowsF& rows, int64_t first, const float* factors, float* out) {
  constexpr int kRows = 8;
  const DF d;
  const float* row[kRows];
  VF sum[kRows];
  for (int i = 0; i < kRows; ++i) {
    const int64_t r = first + i < rows.count ? first + i : rows.count - 1;
    row[i] = rows.data + r * rows.stride;
    sum[i] = hn::Zero(d);
  }
  int64_t c = 0;
  for (; c + kLanes <= rows.dim; c += kLanes) {
    const VF factor = hn::LoadU(d, factors + c);
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) sum[i] = hn::MulAdd(hn::LoadU(d, row[i] + c), factor, sum[i]);
  }
  if (c < rows.dim) {
    const auto mask = hn::FirstN(d, rows.dim - c);
    const VF factor = hn::MaskedLoad(mask, d, factors + c);
    HWY_UNROLL(8)
    for (int i = 0; i < kRows; ++i) {
      sum[i] = hn::MulAdd(hn::MaskedLoad(mask, d, row[i] + c), factor, sum[i]);
    }
  }
  const hn::FixedTag<float, 4> d4;
  hn::StoreU(SumsOfLanes(sum[0], sum[1], sum[2], sum[3]), d4, out);
  hn::StoreU(SumsOfLanes(sum[4], sum[5], sum[6], sum[7]), d4, out + 4);
}

// The scaled logits of a block, -inf past its rows.
HWY_INLINE void Logits(const RowsF& rows, const float* saliency, float scale, float* logits) {
  const DF d;
  for (int64_t j = 0; j < rows.count; j += 8) DotEight(rows, j, saliency, logits + j);
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    const VF scaled = hn::Mul(hn::LoadU(d, logits + j), hn::Set(d, scale));
    // Past the rows a negative scale would make +inf.
    const auto real = hn::FirstN(d, rows.count > j ? rows.count - j : 0);
    hn::StoreU(hn::IfThenElse(real, scaled, hn::Set(d, -kInfinity)), d, logits + j);
  }
}

// Whether a logit leaves a softmax defined: not NaN, not +inf.
HWY_INLINE hn::Mask<DF> IsSound(VF logit) { return hn::Lt(logit, hn::Set(DF(), kInfinity)); }

HWY_INLINE float LargestSound(const float* logits) {
  const DF d;
  VF largest = hn::Set(d, -kInfinity);
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    const VF logit = hn::LoadU(d, logits + j);
    largest = hn::Max(largest, hn::IfThenElse(IsSound(logit), logit, largest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, largest));
}

// Turns a block's logits into weights, returns their sum. Exact where it matters: zero for -inf,
// NaN for a logit that is not sound.
HWY_INLINE float Weights(float largest, float* logits) {
  const DF d;
  const VF nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  VF sum = hn::Zero(d);
  for (int64_t j = 0; j < kBlock; j += kLanes) {
    const VF logit = hn::LoadU(d, logits + j);
    const VF exponent = hn::Mul(hn::Sub(logit, hn::Set(d, largest)), hn::Set(d, kLog2E));
    const VF weight = hn::IfThenZeroElse(hn::Eq(logit, hn::Set(d, -kInfinity)),
                                         Exp2<ExpPrecision::kFp32>(d, exponent));
    const VF honest = hn::IfThenElse(IsSound(logit), weight, nan);
    sum = hn::Add(sum, honest);
    hn::StoreU(honest, d, logits + j);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE void Scale(float factor, int64_t dim, float* sums) {
  const DF d;
  int64_t c = 0;
  for (; c + kLanes <= dim; c += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, sums + c), hn::Set(d, factor)), d, sums + c);
  }
  for (; c < dim; ++c) sums[c] *= factor;
}

// sums[c] += sum over the rows of weights[j] * row[j][c], for `kVectors` vectors of channels. Odd
// and even rows go to sums of their own, which keeps both FMA units busy.
template <int kVectors, bool kPartial>
HWY_INLINE void AddWeighted(const RowsF& rows, int64_t channel, const float* weights, float* sums) {
  static_assert(!kPartial || kVectors == 1, "only the last vector is partial");
  const DF d;
  const auto mask = hn::FirstN(d, kPartial ? rows.dim - channel : kLanes);
  const auto load = [&](const float* from) HWY_ATTR {
    return kPartial ? hn::MaskedLoad(mask, d, from) : hn::LoadU(d, from);
  };
  const float* row = rows.data + channel;
  VF even[kVectors], odd[kVectors];
  HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) {
    even[v] = load(sums + channel + v * kLanes);
    odd[v] = hn::Zero(d);
  }
  int64_t j = 0;
  for (; j + 2 <= rows.count; j += 2, row += 2 * rows.stride) {
    const VF first = hn::Set(d, weights[j]);
    const VF second = hn::Set(d, weights[j + 1]);
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      even[v] = hn::MulAdd(first, load(row + v * kLanes), even[v]);
      odd[v] = hn::MulAdd(second, load(row + rows.stride + v * kLanes), odd[v]);
    }
  }
  HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) {
    VF sum = hn::Add(even[v], odd[v]);
    if (j < rows.count) sum = hn::MulAdd(hn::Set(d, weights[j]), load(row + v * kLanes), sum);
    float* const to = sums + channel + v * kLanes;
    if constexpr (kPartial) {
      hn::BlendedStore(sum, mask, d, to);
    } else {
      hn::StoreU(sum, d, to);
    }
  }
}

HWY_INLINE void AddWeightedRows(const RowsF& rows, const float* weights, float* sums) {
  int64_t c = 0;
  for (; c + 4 * kLanes <= rows.dim; c += 4 * kLanes) AddWeighted<4, false>(rows, c, weights, sums);
  for (; c + kLanes <= rows.dim; c += kLanes) AddWeighted<1, false>(rows, c, weights, sums);
  if (c < rows.dim) AddWeighted<1, true>(rows, c, weights, sums);
}

// Adds a block to a partial sum of one head: the online softmax.
HWY_INLINE void AddBlock(const RowsF& rows, const float* saliency, float scale, float* partial) {
  const DF d;
  float& largest = partial[rows.dim];
  float& sum = partial[rows.dim + 1];
  HWY_ALIGN float weights[kBlock] = {};
  Logits(rows, saliency, scale, weights);
  const float block_largest = LargestSound(weights);
  if (block_largest > largest) {
    // Nothing but zeros and NaN is scaled where there was no finite logit before.
    const float factor =
        hn::GetLane(Exp2<ExpPrecision::kFp32>(d, hn::Set(d, (largest - block_largest) * kLog2E)));
    Scale(factor, rows.dim, partial);
    sum *= factor;
    largest = block_largest;
  }
  sum += Weights(largest, weights);
  AddWeightedRows(rows, weights, partial);
}

// A block's rows of one head as floats.
HWY_INLINE RowsF RowsAt(const ContextJob& job, int64_t offset, int64_t count, float* widened,
                        bool already_widened) {
  if (!job.bf16)
    return {static_cast<const float*>(job.key) + offset, job.key_token, count, job.dim};
  if (!already_widened) {
    const uint16_t* from = static_cast<const uint16_t*>(job.key) + offset;
    for (int64_t j = 0; j < count; ++j) {
      Bf16ToFp32(from + j * job.key_token, job.dim, widened + j * job.dim);
    }
  }
  return {widened, job.dim, count, job.dim};
}

HWY_INLINE void MultiplyRow(const float* value, const float* context, int64_t dim, float* output) {
  const DF d;
  int64_t c = 0;
  for (; c + kLanes <= dim; c += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(d, value + c), hn::LoadU(d, context + c)), d, output + c);
  }
  for (; c < dim; ++c) output[c] = value[c] * context[c];
}

}  // namespace

void SumChunks(const ContextJob& job, float* widened, int64_t begin, int64_t end) {
  const int64_t partial_size = job.dim + key_only::kPartialExtra;
  for (int64_t index = begin; index < end; ++index) {
    const int64_t batch = index / job.chunks;
    const int64_t chunk = index % job.chunks;
    const int64_t last = (chunk + 1) * job.tokens / job.chunks;
    float* const partials = job.partials + index * job.heads * partial_size;
    for (int64_t h = 0; h < job.heads; ++h) {
      float* const partial = partials + h * partial_size;
      for (int64_t c = 0; c < job.dim; ++c) partial[c] = 0.0f;
      partial[job.dim] = -kInfinity;
      partial[job.dim + 1] = 0.0f;
    }
    for (int64_t first = chunk * job.tokens / job.chunks; first < last; first += kBlock) {
      const int64_t count = last - first < kBlock ? last - first : kBlock;
      for (int64_t h = 0; h < job.heads; ++h) {
        const int64_t offset = batch * job.key_batch + h * job.key_head + first * job.key_token;
        const RowsF rows = RowsAt(job, offset, count, widened, h > 0 && job.key_head == 0);
        AddBlock(rows, job.saliency + h * job.dim, job.scale, partials + h * partial_size);
      }
    }
  }
}

void MultiplyTokens(const ProductJob& job, float* widened, int64_t begin, int64_t end) {
  for (int64_t index = begin; index < end; ++index) {
    const int64_t batch = index / job.tokens;
    const int64_t token = index % job.tokens;
    for (int64_t h = 0; h < job.heads; ++h) {
      const float* context = job.context + (batch * job.heads + h) * job.dim;
      const int64_t from = batch * job.value_batch + h * job.value_head + token * job.value_token;
      const int64_t to = batch * job.output_batch + h * job.output_head + token * job.output_token;
      if (job.bf16) {
        Bf16ToFp32(static_cast<const uint16_t*>(job.value) + from, job.dim, widened);
        MultiplyRow(widened, context, job.dim, widened);
        Fp32ToBf16(widened, job.dim, static_cast<uint16_t*>(job.output) + to);
      } else {
        MultiplyRow(static_cast<const float*>(job.value) + from, context, job.dim,
                    static_cast<float*>(job.output) + to);
      }
    }
  }
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::key_only {

void SumChunks(const ContextJob& job, float* widened, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(SumChunks)(job, widened, begin, end);
}

void MultiplyTokens(const ProductJob& job, float* widened, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(MultiplyTokens)(job, widened, begin, end);
}

}  // namespace fovea::kernels::key_only
#endif  // HWY_ONCE
