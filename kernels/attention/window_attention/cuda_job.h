// Window attention as a job of shared/cuda_online.h.
#pragma once
#include "kernels/attention/shared/cuda_windows.h"
#include "kernels/attention/window_attention/implementations.h"

namespace fovea::kernels {

template <class T>
cuda::WindowsJob<T, 1> MakeJob(const WindowAttentionInputs& in, const at::Tensor& output) {
  cuda::WindowsJob<T, 1> job =
      cuda::WindowsJobOf<T, 1>(in, output, in.window[0] * in.window[1], /*vectors=*/true);
  cuda::WindowedHeads<T>& all = job.parts[0];
  all.y = cuda::Cut(in.query.size(2), in.window[0], in.shift[0]);
  all.x = cuda::Cut(in.query.size(3), in.window[1], in.shift[1]);
  all.heads = static_cast<int>(in.query.size(1));
  all.bias = cuda::WindowBiasOf(in.bias);
  return job;
}

}  // namespace fovea::kernels
