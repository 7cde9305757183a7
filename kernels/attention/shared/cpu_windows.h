// Attention within the windows of a map on the CPU: what window, axially expanded window and
// criss-cross attention share.
//
// A window's tokens are gathered, where they do not lie at one stride (rows, columns and whole maps
// do), attended as a panel (cpu_panels.h) or on AMX's tiles (cpu_tiles.h), and scattered.
// cpu_windows.cc knows tensors and threads; cpu_one_window.cc, compiled once per instruction set,
// knows only memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention/shared/attention_way.h"
#include "kernels/attention/shared/cpu_panels.h"
#include "kernels/attention/shared/cpu_token_sets.h"

namespace fovea::kernels::attend {

// Where the places of a [batch, heads, height, width, contiguous] map are; strides in elements.
struct Places {
  void* data;
  int64_t batch;
  int64_t head;
  int64_t row;
  int64_t column;
};

// What is known of each place's softmax before all of its keys were seen, [batch, heads, height,
// width] each, the output with [dim] besides.
struct PartialSoftmax {
  float* output;   // not divided by the sum
  float* largest;  // logit
  float* sum;      // of weights relative to it; NaN where the row is broken
};

// What becomes of a window's result.
enum class Outcome {
  kWritten,  // to the output
  kKept,     // as the partial softmax
  kMerged,   // with the partial softmax, and that to the output
};

// The windows of some heads, in one call.
struct WindowsJob {
  Arithmetic arithmetic;
  Places query, key, value, output;  // only output is written
  int64_t batch, heads, height, width, dim;
  std::array<int64_t, 2> window;  // (h, w)
  std::array<int64_t, 2> shift;
  std::array<int64_t, 2> windows;  // how many along each axis; the last may be padded
  // As BiasFor has it: query i and key j of head n at bias[n * bias_head + j * bias_row + i], for
  // tiles at [n * bias_head + i * bias_row + j]; null: none.
  const float* bias = nullptr;
  int64_t bias_head = 0;
  int64_t bias_row = 0;
  const void* pad_key = nullptr;  // [heads, dim] at padded places; null: zeros
  const void* pad_value = nullptr;
  int64_t pad_key_head = 0;
  int64_t pad_value_head = 0;
  float scale;
  AttentionWay way;
  int64_t block_width;  // rows a panel may have
  bool sees_itself = true;
  Outcome outcome = Outcome::kWritten;
  PartialSoftmax partial{};

  int64_t tokens() const { return window[0] * window[1]; }
  int64_t tasks() const { return batch * windows[0] * windows[1] * heads; }
};

// A thread's workspace, for windows of as many tokens as its layout was made for. The first six are
// there for kPanels, the last two for kTiles.
struct WindowsScratch {
  float* logits;       // [tokens + 1, block_width]
  float* query;        // Q^T of a panel
  float* output;       // workspace of a panel
  float* row_factors;  // [block_width]
  float* key;          // widened, [tokens, dim]
  float* value;        // widened, or transposed
  float* slices;       // [tokens rounded up to vectors]: Swin's slice of each token
  char* gathered;      // query, key, value and output of a window, [tokens, dim] each
  float* masked_bias;  // [tokens, tokens], where a job is shifted
  char* tiles;         // cpu_tiles.h's
};

// The faster one for tensors of this type and windows of so many tokens, of `dim` channels a head
// (kernels/choice, the questions "window_attention_fp32_n64", "_n256" and those of bf16: "panels"
// or "tiles"); panels for what tiles do not take, and in fp32 for up to 16 channels. Each is asked
// once (kernels/choice/cached_answer.h).
AttentionWay FastestWindowsWay(c10::ScalarType type, int64_t tokens, int64_t dim);

// Heads [first_head, first_head + heads) of the maps. `bias`: BiasFor of that way. The tensors must
// outlive the job.
WindowsJob MakeWindowsJob(AttentionWay way, const at::Tensor& query, const at::Tensor& key,
                          const at::Tensor& value, const at::Tensor& output, int64_t first_head,
                          int64_t heads, std::array<int64_t, 2> window,
                          std::array<int64_t, 2> shift, double scale,
                          const std::optional<at::Tensor>& bias);

// fp32 [heads, queries, keys] as a job takes it: for panels [heads, keys, queries rounded up to
// vectors].
std::optional<at::Tensor> BiasFor(AttentionWay way, const std::optional<at::Tensor>& bias);

// Attends every window of every job, from ATen's threads; jobs are independent of each other, and
// go the same way.
void AttendWindows(const std::vector<WindowsJob>& jobs);

// One of a job's windows, kTiles, as a call of cpu_tiles.h's whose rows are not known yet.
TokenSetsJob TilesJobOf(const WindowsJob& job);

// One task: a window of a head of an image. By tiles within simd::AmxTiles.
void AttendWindow(const WindowsJob& job, const WindowsScratch& scratch, int64_t task);

// To be called by a thread after its last AttendWindow.
void ReleaseWindows(const WindowsJob& job);

}  // namespace fovea::kernels::attend
