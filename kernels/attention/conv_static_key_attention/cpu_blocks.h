// The seam between cpu.cc, which knows tensors and threads, and cpu_blocks.cc, which is compiled
// once per instruction set and knows only memory.
#pragma once
#include <cstdint>

#include "kernels/attention/shared/cpu_panels.h"
#include "kernels/attention/shared/cpu_token_sets.h"

namespace fovea::kernels::attend {

// One call, as raw memory. M = height * width; keys = queries = prefix + M.
struct ConvJob {
  Arithmetic arithmetic;
  Rows query, value, output;  // only output is written
  int64_t heads, dim, height, width;
  int64_t prefix;         // 1 with a class token, else 0
  const void* weight;     // [heads * M, 9 * dim]; fp32, or bf16 for kBf16Gemm
  bool taps_first;        // a tap's channels lie side by side there, else a channel's taps
  const float* cls_key;   // [heads, dim]; null without a class token
  const float* key_bias;  // [heads, keys], scaled; null: none
  float scale;
  WeightingTerms weighting;
  int64_t block_width;  // rows a block may have
  int64_t blocks;       // into which a head's rows are cut

  int64_t positions() const { return height * width; }
  int64_t tokens() const { return prefix + positions(); }
  int64_t depth() const { return 9 * dim; }
  // Of one channel of the map with a border of zeros.
  int64_t bordered() const { return (height + 2) * (width + 2); }
};

// A thread's workspace.
struct ConvScratch {
  float* logits;       // [tokens + 1, block_width]
  float* patches;      // the convolution's operand: [9 * dim, block_width] and a vector, or pairs
  float* output;       // workspace of a panel
  float* row_factors;  // [block_width]
  float* value;        // widened or transposed
  float* map;          // of a head: [dim, bordered] and a vector
};

// Attends blocks [begin, end), counted through all heads of all batch entries.
void AttendConvBlocks(const ConvJob& job, const ConvScratch& scratch, int64_t begin, int64_t end);

}  // namespace fovea::kernels::attend
