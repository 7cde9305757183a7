// Attention between token sets on the CPU, a panel of rows at a time: what dense, k-NN and
// static-key attention share. An operator brings how its products become weights.
//
// cpu_token_sets.cc knows tensors and threads; cpu_token_sets-inl.h, compiled once per instruction
// set, knows only memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "kernels/attention/shared/activation.h"
#include "kernels/attention/shared/cpu_panels.h"

namespace fovea::kernels::attend {

// Where a [batch, heads, tokens, contiguous] tensor's rows begin; strides in elements.
struct Rows {
  void* data;
  int64_t batch;
  int64_t head;
  int64_t token;
};

// One call, as raw memory.
struct TokenSetsJob {
  Arithmetic arithmetic;
  Rows query, key, value, output;  // only output is written
  const float* bias;               // null: none
  bool bias_hides;  // what has -inf there is not seen, even if it is NaN: cpu_tiles.h
  int64_t bias_batch, bias_head, bias_query, bias_key;
  int64_t heads, queries, keys, dim;
  int64_t value_dim;  // of values and output: dim, but on tiles (cpu_tiles.h)
  float scale;
  int64_t block_width;  // rows a block may have
  int64_t blocks;       // into which a head's rows are cut
};

// A thread's workspace. Its parts begin on cache lines.
struct TokenSetsScratch {
  float* logits;       // of a block, transposed, then its weights: [keys + 1, block_width]
  float* adjusted;     // the operator's own, as large as it asks
  float* query;        // Q^T of a block: [dim, block_width], or [dim / 2, block_width] pairs
  float* output;       // of a block: [block_width, dim], or transposed
  float* row_factors;  // of a block: [block_width]
  float* key;          // kWidenedBf16: a head's keys, [keys, dim]
  float* value;        // kWidenedBf16: likewise; kBf16Gemm: V^T in bf16, [dim, keys + 1]
};

// Where the `i`th of `blocks` begins that `rows` are cut into, as equal as whole vectors of `lanes`
// allow; the `blocks`th, where the last one ends: at `rows` or up to lanes - 1 behind it.
constexpr int64_t BlockBegin(int64_t rows, int64_t blocks, int64_t lanes, int64_t i) {
  return i * ((rows + lanes - 1) / lanes) / blocks * lanes;
}

// Rows in a vector of the current instruction set.
int64_t LanesNow();

Rows RowsOf(const at::Tensor& tensor);

// query [B, H, Nq, D], key and value [B, H, Nk, D], bias fp32 and expanded to [B, H, Nq, Nk],
// output as query.
TokenSetsJob MakeTokenSetsJob(const at::Tensor& query, const at::Tensor& key,
                              const at::Tensor& value, const std::optional<at::Tensor>& bias,
                              double scale, const at::Tensor& output);

// Which products tensors of these shapes and strides allow, on this machine. `depth`: the terms of
// a logit.
Arithmetic ChooseArithmetic(const at::Tensor& query, const at::Tensor& output, int64_t depth);

WeightingTerms TermsOf(const Activation& activation);

// The most rows a panel should have.
int64_t BlockWidth(Arithmetic arithmetic);

// Calls attend(scratch, begin, end) from ATen's threads until all blocks of all heads of the batch
// are attended, each once. `adjusted`: floats of the operator's own in a thread's scratch.
void ForTokenSets(
    const TokenSetsJob& job, int64_t batch, int64_t adjusted,
    const std::function<void(const TokenSetsScratch&, int64_t begin, int64_t end)>& attend);

}  // namespace fovea::kernels::attend
