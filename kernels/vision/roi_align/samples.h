// Where RoIAlign samples: one axis of one region, in plain code that the CPU's implementation and
// the CUDA kernel share. Sums are in the order of torchvision's, so that a sample on the border
// falls to the same side; files that include this are compiled without fused multiply-adds.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define FOVEA_HOST_DEVICE __host__ __device__
#else
#define FOVEA_HOST_DEVICE
#endif

namespace fovea::kernels::roi_align {

inline constexpr int64_t kMostSamples = 4096;  // in a bin, per axis

struct Axis {
  float start;      // of the region, in pixels
  float bin;        // its size
  int64_t samples;  // in a bin
  int64_t pixels;   // of the image

  // False where a coordinate is not finite.
  FOVEA_HOST_DEVICE bool IsFinite() const { return std::isfinite(start) && std::isfinite(bin); }
};

// `begin` and `end` of a region, as given; `bins` on this axis; `sampling` 0: one per pixel.
FOVEA_HOST_DEVICE inline Axis AxisOf(float begin, float end, float spatial_scale, int64_t bins,
                                     int64_t sampling, bool aligned, int64_t pixels) {
  const float offset = aligned ? 0.5f : 0.0f;
  Axis axis{};
  axis.start = begin * spatial_scale - offset;
  float size = end * spatial_scale - offset - axis.start;
  if (!aligned && size < 1.0f) size = 1.0f;
  axis.bin = size / static_cast<float>(bins);
  axis.samples = sampling;
  if (sampling == 0) {
    const float wanted = std::ceil(axis.bin);
    // Not a number, too: none.
    axis.samples = !(wanted > 0.0f)                            ? 0
                   : wanted < static_cast<float>(kMostSamples) ? static_cast<int64_t>(wanted)
                                                               : kMostSamples;
  }
  axis.pixels = pixels;
  return axis;
}

// Samples [first, past) of a bin are those that may lie in the image: with one per pixel, there may
// be many more outside.
struct Range {
  int64_t first, past;
};

FOVEA_HOST_DEVICE inline Range RangeIn(const Axis& axis, int64_t bin) {
  const float step = axis.bin / static_cast<float>(axis.samples);
  Range range{0, axis.samples};
  if (!(step > 0.0f)) return range;
  const float begin = axis.start + static_cast<float>(bin) * axis.bin;
  // More than what rounding may move a sample by.
  const float slack = 2.0f + 1e-6f * std::fabs(begin) / step;
  const float first = std::floor((-1.0f - begin) / step - slack);
  const float past = std::ceil((static_cast<float>(axis.pixels) - begin) / step + slack);
  const float samples = static_cast<float>(axis.samples);
  if (first > 0.0f) range.first = first < samples ? static_cast<int64_t>(first) : axis.samples;
  if (past < samples) range.past = past > 0.0f ? static_cast<int64_t>(past) : 0;
  return range;
}

// Two neighbouring pixels and their weights.
struct Sample {
  bool inside;  // otherwise both weigh nothing
  int64_t low, high;
  float low_weight, high_weight;
};

FOVEA_HOST_DEVICE inline Sample SampleAt(const Axis& axis, int64_t bin, int64_t index) {
  float at = axis.start + static_cast<float>(bin) * axis.bin +
             (static_cast<float>(index) + 0.5f) * axis.bin / static_cast<float>(axis.samples);
  Sample sample{};
  sample.inside = at >= -1.0f && at <= static_cast<float>(axis.pixels);
  if (!sample.inside) return sample;
  if (at <= 0.0f) at = 0.0f;
  sample.low = static_cast<int64_t>(at);
  if (sample.low >= axis.pixels - 1) {
    sample.low = sample.high = axis.pixels - 1;
    at = static_cast<float>(sample.low);
  } else {
    sample.high = sample.low + 1;
  }
  sample.high_weight = at - static_cast<float>(sample.low);
  sample.low_weight = 1.0f - sample.high_weight;
  return sample;
}

}  // namespace fovea::kernels::roi_align
