// Attention between token sets, block by block (cpu_token_sets.h), compiled per instruction set.
#if defined(FOVEA_KERNELS_CPU_TOKEN_SETS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FOVEA_KERNELS_CPU_TOKEN_SETS_INL_H_
#undef FOVEA_KERNELS_CPU_TOKEN_SETS_INL_H_
#else
#define FOVEA_KERNELS_CPU_TOKEN_SETS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/attention/shared/cpu_panels-inl.h"
#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/simd/targets.h"

#if FOVEA_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace fovea::kernels::HWY_NAMESPACE {

using attend::Rows;
using attend::TokenSetsJob;
using attend::TokenSetsScratch;

// Where a block is: rows [first, first + rows) of a head.
struct Block {
  int64_t batch;
  int64_t head;
  int64_t first;
  int64_t rows;
  int64_t width;  // rows rounded up to whole vectors
};

// The `index`th block of heads whose `queries` rows are cut into `blocks` (BlockBegin).
HWY_INLINE Block BlockAt(int64_t queries, int64_t blocks, int64_t heads, int64_t index) {
  const int64_t i = index % blocks;
  const int64_t first = attend::BlockBegin(queries, blocks, kLanes, i);
  const int64_t width = attend::BlockBegin(queries, blocks, kLanes, i + 1) - first;
  const int64_t left = queries - first;
  const int64_t head = index / blocks;
  return {head / heads, head % heads, first, left < width ? left : width, width};
}

// The elements of a row, whose size is the tensors'.
HWY_INLINE void* RowOf(const TokenSetsJob& job, const Rows& rows, const Block& block,
                       int64_t token) {
  const int64_t element = block.batch * rows.batch + block.head * rows.head + token * rows.token;
  const int64_t bytes = job.arithmetic == Arithmetic::kFp32 ? 4 : 2;
  return static_cast<char*>(rows.data) + element * bytes;
}

// The bias of a block's first row and of key 0.
HWY_INLINE const float* BiasOf(const TokenSetsJob& job, const Block& block) {
  return job.bias + block.batch * job.bias_batch + block.head * job.bias_head +
         block.first * job.bias_query;
}

// [rows, keys] of a bias to [keys, width]; lanes without a row take the last one's.
HWY_INLINE void TransposeBias(const TokenSetsJob& job, const float* bias, int64_t rows,
                              int64_t width, float* to) {
  if (job.bias_key == 1) {
    Transpose32(reinterpret_cast<const uint32_t*>(bias), job.bias_query, rows, job.keys,
                reinterpret_cast<uint32_t*>(to), width);
  } else {
    for (int64_t j = 0; j < job.keys; ++j) {
      for (int64_t r = 0; r < rows; ++r) {
        to[j * width + r] = bias[r * job.bias_query + j * job.bias_key];
      }
    }
  }
  RepeatLastRow(to, width, rows, job.keys);
}

// Attends blocks [begin, end), counted through all heads of all batch entries.
// prepare(block, panel) is called when a head begins, weigh(block, panel) has to turn the products
// in panel.logits into weights and row factors.
template <class Prepare, class Weigh>
HWY_INLINE void AttendTokenSets(const TokenSetsJob& job, const TokenSetsScratch& scratch,
                                int64_t begin, int64_t end, const Prepare& prepare,
                                const Weigh& weigh) {
  Panel panel{};
  panel.arithmetic = job.arithmetic;
  panel.keys = job.keys;
  panel.depth = panel.dim = job.dim;
  panel.query = scratch.query;
  panel.logits = scratch.logits;
  panel.row_factors = scratch.row_factors;
  panel.output = scratch.output;
  const Staged staged = {scratch.key, scratch.value};
  for (int64_t index = begin; index < end; ++index) {
    const Block block = BlockAt(job.queries, job.blocks, job.heads, index);
    panel.rows = block.rows;
    panel.width = block.width;
    if (index == begin || block.first == 0) {
      TakeKeys(RowOf(job, job.key, block, 0), job.key.token, staged, panel);
      TakeValues(RowOf(job, job.value, block, 0), job.value.token, staged, panel);
      prepare(block, panel);
    }
    TakeQueries(RowOf(job, job.query, block, block.first), job.query.token, panel);
    MultiplyByKeys(panel);
    weigh(block, panel);
    MultiplyByValues(panel, RowOf(job, job.output, block, block.first), job.output.token);
  }
  if (job.arithmetic == Arithmetic::kBf16Gemm) simd::ReleaseBf16Gemm();
}

}  // namespace fovea::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FOVEA_SIMD_TARGET
#endif  // toggle
