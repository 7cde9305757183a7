// The seam between cpu.cc, which knows tensors and threads, and cpu_tokens.cc, which is compiled
// once per instruction set and knows only memory.
#pragma once
#include <cstdint>

namespace fovea::kernels::key_only {

// Tokens that are summed up together. A head's tokens are cut into chunks of about this many,
// however many threads there are: so the result does not depend on them.
inline constexpr int64_t kChunk = 256;

// Tokens between two looks at the softmax's maximum: a block stays in the first-level cache.
inline constexpr int64_t kBlock = 32;

// The sums of a chunk for one head, in memory `dim` + 2 floats: sum of weight * key over its
// tokens, with weight = e^(logit - largest); the largest finite logit, -inf if there is none; the
// sum of the weights.
inline constexpr int64_t kPartialExtra = 2;

struct ContextJob {
  bool bf16;
  const void* key;  // [batch, heads, tokens, dim]; strides in elements
  int64_t key_batch, key_head, key_token;
  const float* saliency;  // [heads, dim]
  int64_t heads, tokens, dim, chunks;
  float scale;
  float* partials;  // [batch, chunks, heads, dim + 2]
};

// Sums up chunks [begin, end), counted through the batch, into their partials. `widened`: of this
// thread, [kBlock, dim]; for bf16.
void SumChunks(const ContextJob& job, float* widened, int64_t begin, int64_t end);

struct ProductJob {
  bool bf16;
  const void* value;  // [batch, heads, tokens, dim]; strides in elements
  int64_t value_batch, value_head, value_token;
  void* output;  // likewise; may be `value`
  int64_t output_batch, output_head, output_token;
  const float* context;  // [batch, heads, dim]
  int64_t heads, tokens, dim;
};

// Multiplies tokens [begin, end), counted through the batch. `widened`: of this thread, [dim]; for
// bf16.
void MultiplyTokens(const ProductJob& job, float* widened, int64_t begin, int64_t end);

}  // namespace fovea::kernels::key_only
