// What the CPU kernels of the attention operators multiply: a panel of queries with its keys and
// values, as raw memory. cpu_panels-inl.h has the arithmetic, compiled once per instruction set.
#pragma once
#include <cstdint>

namespace fovea::kernels::attend {

enum class Arithmetic {
  kFp32,         // fp32 tensors
  kBf16Gemm,     // bf16 tensors and products (simd/gemm.h); an even number of channels
  kWidenedBf16,  // bf16 tensors, fp32 products
};

// A block of queries of one head, and all keys they may attend. Everything in it is transposed, so
// that a query's row of logits is a lane: vectors of rows, no sums across a vector, no tails.
struct Panel {
  Arithmetic arithmetic;
  int64_t rows;   // queries
  int64_t width;  // rows, rounded up to whole vectors
  int64_t keys;
  int64_t depth;       // terms of a logit
  int64_t dim;         // of a value
  float* query;        // Q^T: [depth, width]; kBf16Gemm: pairs of bf16 [depth / 2, width]
  const void* key;     // fp32 [keys, depth]; kBf16Gemm: bf16
  int64_t key_stride;  // elements from key to key
  const void* value;   // fp32 [keys, dim]; kBf16Gemm: V^T in bf16, [dim, keys rounded up to even]
  int64_t value_stride;
  float* logits;       // [keys + 1, width]: logits, then the weights in their place
  float* row_factors;  // [width]: what a row's output is multiplied by
  float* output;       // workspace [width, dim]
};

// What turns products into logits: product * scale + bias, -inf where masked. What is
// null is not there.
struct LogitTerms {
  float scale;
  const float* bias = nullptr;  // key j's for the panel's rows at bias + j * bias_stride
  int64_t bias_stride = 0;
  const float* key_bias = nullptr;  // key j's for all rows at key_bias + j * key_bias_stride
  int64_t key_bias_stride = 0;
  const float* query_slice = nullptr;  // [width]: the slice each row's token belongs to
  const float* key_slice = nullptr;    // [keys]
  int64_t itself = -1;                 // row i does not see key itself + i; -1: it does
};

// Activation (activation.h) as the kernels want it.
enum class Weighting { kSoftmax, kGelu, kRelu, kStarRelu };
struct WeightingTerms {
  Weighting kind = Weighting::kSoftmax;
  float scale = 1.0f;  // of kStarRelu
  float bias = 0.0f;
};

}  // namespace fovea::kernels::attend
