// Attention within the windows of a map on the CPU: what window, axially expanded window and
// criss-cross attention share.
//
// A window's tokens are gathered, where they do not lie at one stride (rows, columns and whole maps
// do), attended as a panel (cpu_panels.h) and scattered. cpu_windows.cc knows tensors and threads;
// cpu_windows_panel.cc, compiled once per instruction set, knows only memory.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/attention/shared/cpu_panels.h"

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
  // Transposed: query i and key j of head n at bias[n * bias_head + j * bias_key + i]; null: none.
  const float* bias = nullptr;
  int64_t bias_head = 0;
  int64_t bias_key = 0;
  const void* pad_key = nullptr;  // [heads, dim] at padded places; null: zeros
  const void* pad_value = nullptr;
  int64_t pad_key_head = 0;
  int64_t pad_value_head = 0;
  float scale;
  int64_t block_width;  // rows a panel may have
  bool sees_itself = true;
  Outcome outcome = Outcome::kWritten;
  PartialSoftmax partial{};

  int64_t tokens() const { return window[0] * window[1]; }
  int64_t tasks() const { return batch * windows[0] * windows[1] * heads; }
};

// A thread's workspace, for windows of as many tokens as its layout was made for.
struct WindowsScratch {
  float* logits;       // [tokens + 1, block_width]
  float* query;        // Q^T of a panel
  float* output;       // workspace of a panel
  float* row_factors;  // [block_width]
  float* key;          // widened, [tokens, dim]
  float* value;        // widened, or transposed
  float* parts;        // [tokens rounded up to vectors]: Swin's slice of each token
  char* gathered;      // query, key, value and output of a window, [tokens, dim] each
};

// Heads [first_head, first_head + heads) of the maps. `bias`: fp32 [heads, tokens, tokens]
// transposed by TransposedBias. The tensors must outlive the job.
WindowsJob MakeWindowsJob(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const at::Tensor& output, int64_t first_head, int64_t heads,
                          std::array<int64_t, 2> window, std::array<int64_t, 2> shift, double scale,
                          const std::optional<at::Tensor>& transposed_bias);

// fp32 [heads, queries, keys] to [heads, keys, queries rounded up to vectors].
std::optional<at::Tensor> TransposedBias(const std::optional<at::Tensor>& bias);

// Attends every window of every job, from ATen's threads; jobs are independent of each other.
void AttendWindows(const std::vector<WindowsJob>& jobs);

// One task: a window of a head of an image.
void AttendWindow(const WindowsJob& job, const WindowsScratch& scratch, int64_t task);

// To be called by a thread after its last AttendWindow.
void ReleaseWindows(const WindowsJob& job);

}  // namespace fovea::kernels::attend
