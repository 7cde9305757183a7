// RP-CPE on CUDA: what one thread does. Device code only; cuda.cu launches it, and
// tests/kernels/cuda_on_host runs it where there is no GPU.
//
// One convolution, of branches that were merged before. Where channels are contiguous, a thread
// takes a few neighbouring channels of kStrip neighbouring outputs of a row and slides three sums
// along it: nine taps a channel stay in registers, and each input is loaded once per row of taps.
// Threads of a warp are neighbouring channels. Elsewhere a thread takes one output, neighbours in a
// warp being neighbours in memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/elements.h"

namespace fovea::kernels::rp_cpe {

inline constexpr int kThreads = 256;
inline constexpr int kTaps = 9;
inline constexpr int kCentre = kTaps / 2;  // where the skip connection adds 1
inline constexpr int kStrip = 8;

// A [batch, channels, height, width] map; strides in elements.
template <class T>
struct CudaMap {
  T* data;
  int64_t batch, channel, row, column;
};

template <class T>
struct CudaJob {
  CudaMap<const T> x;
  CudaMap<T> y;
  const float* weights;  // [channels, kTaps], without the skip connection
  const float* biases;   // [channels]
  int64_t images, channels, height, width;
};

// Strip `index` of a map whose channels are contiguous, counted in the order [batch, rows, strips,
// channels].
// `kChannels` divides the channels and all strides, and cuda::Elements' alignment the maps'
// addresses and the weights'.
template <int kChannels, class T>
__device__ __forceinline__ void ConvolveStrip(const CudaJob<T>& job, int64_t index) {
  using Packed = cuda::Elements<T, kChannels>;
  const int64_t packs = job.channels / kChannels;
  const int64_t strips = (job.width + kStrip - 1) / kStrip;
  const int64_t channel = index % packs * kChannels;
  const int64_t first = index / packs % strips * kStrip;
  const int64_t row = index / packs / strips % job.height;
  const int64_t image = index / packs / strips / job.height;
  const int64_t past = first + kStrip < job.width ? first + kStrip : job.width;

  // kChannels * kTaps weights that follow each other, in as many packs as there are taps.
  float taps[kTaps][kChannels];
  float bias[kChannels];
  const float* weights = job.weights + channel * kTaps;
#pragma unroll
  for (int pack = 0; pack < kTaps; ++pack) {
    const auto loaded = cuda::ElementsAt<kChannels>(weights + pack * kChannels);
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      const int place = pack * kChannels + i;
      taps[place % kTaps][place / kTaps] = loaded.at[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kChannels; ++i) {
    taps[kCentre][i] += 1.0f;
    bias[i] = job.biases[channel + i];
  }
  const T* x = job.x.data + image * job.x.batch + row * job.x.row + channel;
  T* y = job.y.data + image * job.y.batch + row * job.y.row + channel;

  // Sums of the outputs left of, at and right of the column that is being added.
  float sum[3][kChannels];
#pragma unroll
  for (int i = 0; i < kChannels; ++i) sum[0][i] = sum[1][i] = sum[2][i] = bias[i];
  for (int64_t column = first - 1; column <= past; ++column) {
    if (column >= 0 && column < job.width) {
#pragma unroll
      for (int r = 0; r < 3; ++r) {
        if (row + r - 1 < 0 || row + r - 1 >= job.height) continue;
        const Packed in =
            cuda::ElementsAt<kChannels>(x + (r - 1) * job.x.row + column * job.x.column);
#pragma unroll
        for (int i = 0; i < kChannels; ++i) {
          const float value = static_cast<float>(in.at[i]);
          sum[0][i] += value * taps[3 * r + 2][i];
          sum[1][i] += value * taps[3 * r + 1][i];
          sum[2][i] += value * taps[3 * r][i];
        }
      }
    }
    if (column > first) {
      Packed out;
#pragma unroll
      for (int i = 0; i < kChannels; ++i) out.at[i] = T(sum[0][i]);
      cuda::ElementsAt<kChannels>(y + (column - 1) * job.y.column) = out;
    }
#pragma unroll
    for (int i = 0; i < kChannels; ++i) {
      sum[0][i] = sum[1][i];
      sum[1][i] = sum[2][i];
      sum[2][i] = bias[i];
    }
  }
}

// Output `index` of any map, counted in the order [batch, channels, height, width].
template <class T>
__device__ __forceinline__ void ConvolveOutput(const CudaJob<T>& job, int64_t index) {
  const int64_t column = index % job.width;
  const int64_t row = index / job.width % job.height;
  const int64_t channel = index / job.width / job.height % job.channels;
  const int64_t image = index / job.width / job.height / job.channels;
  const T* x = job.x.data + image * job.x.batch + channel * job.x.channel + row * job.x.row +
               column * job.x.column;
  const float* weights = job.weights + channel * kTaps;
  float sum = job.biases[channel];
#pragma unroll
  for (int tap = 0; tap < kTaps; ++tap) {
    const int r = tap / 3 - 1;
    const int c = tap % 3 - 1;
    if (row + r < 0 || row + r >= job.height || column + c < 0 || column + c >= job.width) continue;
    sum += static_cast<float>(x[r * job.x.row + c * job.x.column]) *
           (weights[tap] + (tap == kCentre ? 1.0f : 0.0f));
  }
  job.y.data[image * job.y.batch + channel * job.y.channel + row * job.y.row +
             column * job.y.column] = T(sum);
}

}  // namespace fovea::kernels::rp_cpe
