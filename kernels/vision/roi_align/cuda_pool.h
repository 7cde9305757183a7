// RoIAlign on CUDA: one output by one thread. Device code only; cuda.cu launches it, and
// tests/kernels/cuda_on_host runs it where there is no GPU.
//
// Neighbouring threads take outputs that are neighbours in memory: bins of a plane, or channels.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/vision/roi_align/samples.h"

namespace fovea::kernels::roi_align {

inline constexpr int kThreads = 256;

template <class T>
struct CudaJob {
  const T* input;
  int64_t batch, channel, row, column;  // its strides, in elements
  int64_t images, channels, height, width;
  const float* rois;  // [count, 5]
  T* output;          // dense: [count, channels, h, w] or, channels-last, [count, h, w, channels]
  bool channels_last;
  int64_t h, w, sampling;
  float spatial_scale;
  bool aligned;
};

// Output `index`, counted as they lie in memory.
template <class T>
__device__ __forceinline__ void PoolOutput(const CudaJob<T>& job, int64_t index) {
  int64_t rest = index;
  const auto take = [&rest](int64_t size) {
    const int64_t i = rest % size;
    rest /= size;
    return i;
  };
  int64_t channel = job.channels_last ? take(job.channels) : 0;
  const int64_t x = take(job.w);
  const int64_t y = take(job.h);
  if (!job.channels_last) channel = take(job.channels);
  const float* roi = job.rois + rest * 5;

  const Axis rows =
      AxisOf(roi[2], roi[4], job.spatial_scale, job.h, job.sampling, job.aligned, job.height);
  const Axis columns =
      AxisOf(roi[1], roi[3], job.spatial_scale, job.w, job.sampling, job.aligned, job.width);
  const bool has_image = roi[0] >= 0.0f && roi[0] < static_cast<float>(job.images);
  if (!has_image || !rows.IsFinite() || !columns.IsFinite()) {
    job.output[index] = T(NAN);
    return;
  }
  const T* image = job.input + static_cast<int64_t>(roi[0]) * job.batch + channel * job.channel;
  const Range in_rows = RangeIn(rows, y);
  const Range in_columns = RangeIn(columns, x);
  float sum = 0.0f;
  for (int64_t i = in_rows.first; i < in_rows.past; ++i) {
    const Sample row = SampleAt(rows, y, i);
    if (!row.inside) continue;
    const T* low = image + row.low * job.row;
    const T* high = image + row.high * job.row;
    for (int64_t j = in_columns.first; j < in_columns.past; ++j) {
      const Sample column = SampleAt(columns, x, j);
      if (!column.inside) continue;
      const int64_t left = column.low * job.column;
      const int64_t right = column.high * job.column;
      sum += row.low_weight * (column.low_weight * static_cast<float>(low[left]) +
                               column.high_weight * static_cast<float>(low[right])) +
             row.high_weight * (column.low_weight * static_cast<float>(high[left]) +
                                column.high_weight * static_cast<float>(high[right]));
    }
  }
  const int64_t samples = rows.samples * columns.samples;
  job.output[index] = T(sum / static_cast<float>(samples > 0 ? samples : 1));
}

}  // namespace fovea::kernels::roi_align
