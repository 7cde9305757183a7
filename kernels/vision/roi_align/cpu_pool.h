// The seam between cpu.cc, which knows tensors, threads and where samples lie, and cpu_pool.cc,
// which is compiled once per instruction set and knows only memory.
#pragma once
#include <cstdint>

namespace fovea::kernels::roi_align {

// A row or column of an image and what it weighs in a bin.
struct Tap {
  int64_t offset;  // elements from the image's beginning
  float weight;
};

// Taps of bin i: [first[i], first[i + 1]).
struct Taps {
  const Tap* taps;
  const int64_t* first;
};

// One region of one image, as raw memory; strides in elements.
struct Region {
  bool bf16;          // image and output; otherwise fp32
  const void* image;  // [channels, height, width]
  int64_t image_channel;
  void* output;  // [channels, h, w]
  int64_t output_channel, output_row, output_column;
  int64_t channels, h, w;
  Taps rows, columns;
  // Of images whose columns are contiguous: the columns that any bin needs.
  int64_t first_column, column_count;
  float* row;  // column_count; scratch
};

// Where columns are contiguous: taps of columns have their index as offset.
void PoolPlanes(const Region& region);

// Where channels are contiguous, in image and output.
void PoolChannelsLast(const Region& region);

}  // namespace fovea::kernels::roi_align
