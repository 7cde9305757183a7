// Axially expanded window attention as a job of shared/cuda_online.h: rows, columns and windows in
// one launch. pad_key and pad_value are contiguous in their last dimension.
#pragma once
#include <algorithm>

#include "kernels/attention/axial_window_attention/implementations.h"
#include "kernels/attention/shared/cuda_windows.h"

namespace fovea::kernels {

template <class T>
cuda::WindowsJob<T, 3> MakeJob(const AxialWindowAttentionInputs& in, const at::Tensor& output) {
  bool vectors = true;
  for (const std::optional<at::Tensor>& pad : {in.pad_key, in.pad_value}) {
    vectors = vectors && (!pad || cuda::AreVectorAligned({*pad}));
  }
  const int64_t height = in.query.size(2), width = in.query.size(3), window = in.window;
  cuda::WindowsJob<T, 3> job =
      cuda::WindowsJobOf<T, 3>(in, output, std::max({height, width, window * window}), vectors);
  const int quarter = static_cast<int>(in.query.size(1) / 4);
  auto& [rows, columns, windows] = job.parts;

  rows.y = cuda::Cut(height, 1, 0);
  rows.x = cuda::Cut(width, width, 0);
  rows.first_head = 0;
  rows.heads = quarter;
  rows.bias = cuda::WindowBiasOf(in.bias_rows);

  columns.y = cuda::Cut(height, height, 0);
  columns.x = cuda::Cut(width, 1, 0);
  columns.first_head = quarter;
  columns.heads = quarter;
  columns.bias = cuda::WindowBiasOf(in.bias_columns);

  windows.y = cuda::Cut(height, window, in.shift);
  windows.x = cuda::Cut(width, window, in.shift);
  windows.first_head = 2 * quarter;
  windows.heads = 2 * quarter;
  windows.bias = cuda::WindowBiasOf(in.bias_window);
  if (in.pad_key) {
    windows.pad_key = cuda::ReadOnly<T>(*in.pad_key);
    windows.pad_key_head = in.pad_key->stride(0);
  }
  if (in.pad_value) {
    windows.pad_value = cuda::ReadOnly<T>(*in.pad_value);
    windows.pad_value_head = in.pad_value->stride(0);
  }
  return job;
}

}  // namespace fovea::kernels
