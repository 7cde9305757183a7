// k-NN attention on the CPU, a block of rows at a time.
//
// A block is a few vectors of queries, and everything in it is transposed, so that a row is a lane:
// S^T = K Q^T is [keys, rows]. The keys lie where the caller has them, only the block's queries are
// transposed. Each vector of rows then selects its keys by counting (select.h says how): sorting or
// a heap would move every logit many times and branch on each, while a round of counting streams
// them from L1 without a branch, and a handful of rounds suffices. The softmax puts the weights
// where the logits were, zero below the threshold, and the second product takes them from there.
// A block's logits are all that is ever stored.
//
// fp32 multiplies with simd/multiply-inl.h, out = S V straight into the output's rows. bf16
// multiplies with oneDNN's bf16 kernels, out^T = V^T S^T, weights in pairs, which needs V^T once
// per head. Where the processor has no bf16 products, heads are widened to fp32.
#include "kernels/attention/knn_attention/cpu_blocks.h"

#include <cstdint>
#include <limits>

#include "kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/knn_attention/cpu_blocks.cc"
// Before <hwy/highway.h>: compiles this file once per target.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/knn_attention/select-inl.h"
#include "kernels/simd/bf16-inl.h"
#include "kernels/simd/bf16_gemm.h"
#include "kernels/simd/isa.h"
#include "kernels/simd/multiply-inl.h"
#include "kernels/simd/transpose-inl.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {
namespace {

using knn::Arithmetic;
using knn::Job;
using knn::Rows;
using knn::Scratch;

struct Block {
  int64_t batch;
  int64_t head;
  int64_t first;  // row
  int64_t rows;
  int64_t width;  // of its transposed matrices: rows rounded up to whole vectors
};

// A head's blocks are as equal as whole vectors allow.
Block BlockAt(const Job& job, int64_t index) {
  const int64_t vectors = (job.queries + kLanes - 1) / kLanes;
  const int64_t i = index % job.blocks;
  const int64_t first = i * vectors / job.blocks * kLanes;
  const int64_t width = (i + 1) * vectors / job.blocks * kLanes - first;
  const int64_t left = job.queries - first;
  const int64_t head = index / job.blocks;
  return {head / job.heads, head % job.heads, first, left < width ? left : width, width};
}

template <class T>
T* RowOf(const Rows& rows, const Block& block, int64_t token) {
  return static_cast<T*>(rows.data) + block.batch * rows.batch + block.head * rows.head +
         token * rows.token;
}

// Lanes without a row of their own take the last one's values: as good as any, and never slower.
template <class T>
void RepeatLastRow(T* transposed, int64_t width, int64_t rows, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c) {
    T* lanes = transposed + c * width;
    for (int64_t r = rows; r < width; ++r) lanes[r] = lanes[rows - 1];
  }
}

// A block's [rows, columns] words to [columns, width].
void TransposeBlock(const void* src, int64_t src_stride, const Block& block, int64_t columns,
                    float* dst) {
  uint32_t* words = reinterpret_cast<uint32_t*>(dst);
  Transpose32(static_cast<const uint32_t*>(src), src_stride, block.rows, columns, words,
              block.width);
  RepeatLastRow(words, block.width, block.rows, columns);
}

// Unscaled logits of a block, transposed, by fp32 products.
void Logits(const Job& job, const Scratch& scratch, const Block& block) {
  const float* query = RowOf<float>(job.query, block, block.first);
  const float* key = RowOf<float>(job.key, block, 0);
  int64_t query_stride = job.query.token;
  int64_t key_stride = job.key.token;
  if (job.arithmetic == Arithmetic::kWidenedBf16) {
    // The widened queries rest where the output will be.
    for (int64_t r = 0; r < block.rows; ++r) {
      Bf16ToFp32(RowOf<uint16_t>(job.query, block, block.first + r), job.dim,
                 scratch.output + r * job.dim);
    }
    query = scratch.output;
    key = scratch.key;
    query_stride = key_stride = job.dim;
  }
  TransposeBlock(query, query_stride, block, job.dim, scratch.query);
  Factors factors = {key, key_stride, 1, scratch.query, block.width, job.dim};
  int64_t column = 0;
  for (; column + 2 * kLanes <= block.width; column += 2 * kLanes, factors.b += 2 * kLanes) {
    MultiplyRows<2>(factors, job.keys, scratch.logits + column, block.width);
  }
  if (column < block.width) {
    MultiplyRows<1>(factors, job.keys, scratch.logits + column, block.width);
  }
}

// The same by bf16 products.
void LogitsBf16(const Job& job, const Scratch& scratch, const Block& block) {
  TransposeBlock(RowOf<uint16_t>(job.query, block, block.first), job.query.token / 2, block,
                 job.dim / 2, scratch.query);
  simd::Bf16Gemm(job.keys, block.width, job.dim, RowOf<uint16_t>(job.key, block, 0), job.key.token,
                 reinterpret_cast<const uint16_t*>(scratch.query), block.width, scratch.logits,
                 block.width);
}

// The logits of the vector of rows that begins at `column` of a block, to scratch.lanes: scaled and
// biased if `scaled`, as they are if not.
LaneMoments TakeLogits(const Job& job, const Scratch& scratch, const Block& block, int64_t column,
                       bool scaled) {
  const DF d;
  const float* from = scratch.logits + column;
  float* to = scratch.lanes;
  if (!scaled) {
    return CopyAndMeasure(from, block.width, job.keys, to,
                          [](VF s, int64_t) HWY_ATTR { return s; });
  }
  const VF scale = hn::Set(d, job.scale);
  if (job.bias == nullptr) {
    return CopyAndMeasure(from, block.width, job.keys, to,
                          [&](VF s, int64_t) HWY_ATTR { return hn::Mul(s, scale); });
  }
  const float* bias = job.bias + block.batch * job.bias_batch + block.head * job.bias_head;
  if (job.bias_query == 0) {
    return CopyAndMeasure(from, block.width, job.keys, to, [&](VF s, int64_t j) HWY_ATTR {
      return hn::MulAdd(s, scale, hn::Set(d, bias[j * job.bias_key]));
    });
  }
  // The bias is transposed to where the logits will lie.
  const int64_t left = block.rows - column;
  const int64_t rows = left < kLanes ? left : kLanes;
  const float* first = bias + (block.first + column) * job.bias_query;
  if (job.bias_key == 1) {
    Transpose32(reinterpret_cast<const uint32_t*>(first), job.bias_query, rows, job.keys,
                reinterpret_cast<uint32_t*>(to), kLanes);
  } else {
    for (int64_t j = 0; j < job.keys; ++j) {
      for (int64_t r = 0; r < rows; ++r) {
        to[j * kLanes + r] = first[r * job.bias_query + j * job.bias_key];
      }
    }
  }
  RepeatLastRow(to, kLanes, rows, job.keys);
  return CopyAndMeasure(from, block.width, job.keys, to, [&](VF s, int64_t j) HWY_ATTR {
    return hn::MulAdd(s, scale, hn::Load(d, to + j * kLanes));
  });
}

// What a row's output is multiplied by, from the sum of its weights.
VF RowFactor(VF sum, MF broken) {
  const DF d;
  const VF factor = hn::IfThenElseZero(hn::Gt(sum, hn::Zero(d)), hn::Div(hn::Set(d, 1.0f), sum));
  return hn::IfThenElse(broken, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), factor);
}

// Turns a block's logits into weights, and writes its row factors; a vector of rows at a time.
template <WeightsAs kAs>
void SelectAndSoftmax(const Job& job, const Scratch& scratch, const Block& block) {
  constexpr float kLog2E = 1.44269504f;
  // A positive scale that does not make them larger changes neither the order of the logits nor
  // which are finite: without bias, the softmax can apply it.
  const bool scaled = job.bias != nullptr || job.scale > 1.0f || job.scale < 0x1p-64f;
  const float scale2 = scaled ? kLog2E : job.scale * kLog2E;
  for (int64_t column = 0; column < block.width; column += kLanes) {
    const LaneMoments moments = TakeLogits(job, scratch, block, column, scaled);
    const LaneRows rows = {scratch.lanes, job.keys};
    const LaneThreshold threshold = SelectThreshold(rows, job.topk, moments, job.rank);
    float* weights = scratch.logits + column;
    const VF sum = threshold.any_ties ? SoftmaxAbove<kAs, true>(rows, threshold, moments.largest,
                                                                scale2, weights, block.width)
                                      : SoftmaxAbove<kAs, false>(rows, threshold, moments.largest,
                                                                 scale2, weights, block.width);
    hn::StoreU(RowFactor(sum, moments.broken), DF(), scratch.row_factors + column);
  }
}

// out = weights V, by fp32 products.
void WeightedValues(const Job& job, const Scratch& scratch, const Block& block) {
  Factors factors = {scratch.logits, 1, block.width, nullptr, 0, job.keys};
  if (job.arithmetic == Arithmetic::kFp32) {
    factors.b = RowOf<float>(job.value, block, 0);
    factors.b_row = job.value.token;
    MultiplyColumns(factors, block.rows, job.dim, RowOf<float>(job.output, block, block.first),
                    job.output.token, scratch.row_factors);
    return;
  }
  factors.b = scratch.value;
  factors.b_row = job.dim;
  MultiplyColumns(factors, block.rows, job.dim, scratch.output, job.dim, scratch.row_factors);
  for (int64_t r = 0; r < block.rows; ++r) {
    Fp32ToBf16(scratch.output + r * job.dim, job.dim,
               RowOf<uint16_t>(job.output, block, block.first + r));
  }
}

// The same by bf16 products, transposed: out^T = V^T weights^T.
void WeightedValuesBf16(const Job& job, const Scratch& scratch, const Block& block) {
  const DF d;
  const int64_t even_keys = (job.keys + 1) / 2 * 2;
  float* out = scratch.output;
  simd::Bf16Gemm(job.dim, block.width, even_keys, reinterpret_cast<const uint16_t*>(scratch.value),
                 even_keys, reinterpret_cast<const uint16_t*>(scratch.logits), block.width, out,
                 block.width);
  // Neighbouring channels become words, in place, which are transposed into the output's rows.
  uint32_t* words = reinterpret_cast<uint32_t*>(out);
  for (int64_t column = 0; column < block.width; column += kLanes) {
    const VF factor = hn::LoadU(d, scratch.row_factors + column);
    for (int64_t c = 0; c < job.dim; c += 2) {
      const float* channels = out + c * block.width + column;
      const VF first = hn::Mul(hn::LoadU(d, channels), factor);
      const VF second = hn::Mul(hn::LoadU(d, channels + block.width), factor);
      hn::StoreU(PairBf16(RoundToBf16(d, first), RoundToBf16(d, second)),
                 hn::RebindToUnsigned<DF>(), words + c / 2 * block.width + column);
    }
  }
  Transpose32(words, block.width, job.dim / 2, block.rows,
              reinterpret_cast<uint32_t*>(RowOf<uint16_t>(job.output, block, block.first)),
              job.output.token / 2);
}

// What a head's blocks share.
void PrepareHead(const Job& job, const Scratch& scratch, const Block& block) {
  if (job.arithmetic == Arithmetic::kBf16Gemm) {
    const int64_t even_keys = (job.keys + 1) / 2 * 2;
    uint16_t* transposed = reinterpret_cast<uint16_t*>(scratch.value);
    Transpose16(RowOf<uint16_t>(job.value, block, 0), job.value.token, job.keys, job.dim,
                transposed, even_keys);
    if (even_keys != job.keys) {
      for (int64_t c = 0; c < job.dim; ++c) transposed[c * even_keys + job.keys] = 0;
    }
  } else if (job.arithmetic == Arithmetic::kWidenedBf16) {
    for (int64_t j = 0; j < job.keys; ++j) {
      Bf16ToFp32(RowOf<uint16_t>(job.key, block, j), job.dim, scratch.key + j * job.dim);
      Bf16ToFp32(RowOf<uint16_t>(job.value, block, j), job.dim, scratch.value + j * job.dim);
    }
  }
}

}  // namespace

void AttendBlocks(const Job& job, const Scratch& scratch, int64_t begin, int64_t end) {
  for (int64_t index = begin; index < end; ++index) {
    const Block block = BlockAt(job, index);
    if (index == begin || block.first == 0) PrepareHead(job, scratch, block);
    if (job.arithmetic == Arithmetic::kBf16Gemm) {
      LogitsBf16(job, scratch, block);
      SelectAndSoftmax<WeightsAs::kBf16Pairs>(job, scratch, block);
      WeightedValuesBf16(job, scratch, block);
    } else {
      Logits(job, scratch, block);
      SelectAndSoftmax<WeightsAs::kFp32>(job, scratch, block);
      WeightedValues(job, scratch, block);
    }
  }
  if (job.arithmetic == Arithmetic::kBf16Gemm) simd::ReleaseBf16Gemm();
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET

#if HWY_ONCE
namespace fovea::kernels::knn {

int64_t LanesNow() {
  return simd::CurrentIsa() == simd::Isa::kAvx512 ? N_AVX3::kLanes : N_AVX2::kLanes;
}

void AttendBlocks(const Job& job, const Scratch& scratch, int64_t begin, int64_t end) {
  FOVEA_SIMD_CHOOSE(AttendBlocks)(job, scratch, begin, end);
}

}  // namespace fovea::kernels::knn
#endif  // HWY_ONCE
