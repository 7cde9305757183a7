// The seam between cpu.cc, which knows tensors and threads, and cpu_blocks.cc, which is compiled
// once per instruction set and knows only memory.
#pragma once
#include <cstdint>

#include "kernels/attention/knn_attention/select.h"

namespace fovea::kernels::knn {

enum class Arithmetic {
  kFp32,         // fp32 tensors
  kBf16Gemm,     // bf16 tensors and products; pairs of channels aligned as words
  kWidenedBf16,  // bf16 tensors, fp32 products
};

// Where a [batch, heads, tokens, contiguous] tensor's rows begin; strides in elements.
struct Rows {
  void* data;
  int64_t batch;
  int64_t head;
  int64_t token;
};

// One call, as raw memory.
struct Job {
  Arithmetic arithmetic;
  Rows query, key, value, output;  // only output is written
  const float* bias;               // null: none
  int64_t bias_batch, bias_head, bias_query, bias_key;
  int64_t heads, queries, keys, dim;
  int32_t topk;
  float scale;
  NormalRank rank;      // of topk in keys; unused where they are equal
  int64_t block_width;  // rows a block may have
  int64_t blocks;       // into which a head's rows are cut
};

// A thread's workspace. Its parts begin on cache lines.
struct Scratch {
  float* logits;       // of a block, transposed, then its weights: [keys + 1, block_width]
  float* lanes;        // logits of one vector of its rows: [keys, lanes]
  float* query;        // Q^T of a block: [dim, block_width], or [dim / 2, block_width] pairs
  float* output;       // of a block: [block_width, dim], or transposed
  float* row_factors;  // of a block: [block_width]
  float* key;          // kWidenedBf16: a head's keys, [keys, dim]
  float* value;        // kWidenedBf16: likewise; kBf16Gemm: V^T in bf16, [dim, keys + 1]
};

// Rows in a vector of the current instruction set.
int64_t LanesNow();

// Attends blocks [begin, end), counted through all heads of all batch entries.
void AttendBlocks(const Job& job, const Scratch& scratch, int64_t begin, int64_t end);

}  // namespace fovea::kernels::knn
