// The seam between winograd3x3.cc, which knows tensors and threads, and cpu_tiles.cc, which is
// compiled once per instruction set and knows only memory.
#pragma once
#include <cstdint>

namespace fovea::kernels::winograd3x3 {

inline constexpr int64_t kPoints = 16;  // of a transformed tile, 4x4
inline constexpr int64_t kPanel = 32;   // output channels of a panel of packed weights
// `in` is a multiple of this: whole vectors with every instruction set.
inline constexpr int64_t kChannelStep = 16;

// One call, as raw memory. Channels are contiguous; strides in elements.
struct Job {
  const float* x;
  int64_t x_image, x_row, x_column;
  float* y;
  int64_t y_image, y_row, y_column;
  const float* weights;  // [panels, kPoints, in, kPanel]
  const float* bias;     // [out], or null
  int64_t in, out, height, width;
  int64_t tile_columns, tiles;  // of an image: 2x2 outputs each
};

// Floats that ConvolveTiles works in for `tiles` tiles at a time.
int64_t ScratchFloats(const Job& job, int64_t tiles);

// Tiles [first, first + count) of image number `image`, counted row by row. `scratch`:
// ScratchFloats(job, count) floats or more.
void ConvolveTiles(const Job& job, float* scratch, int64_t image, int64_t first, int64_t count);

}  // namespace fovea::kernels::winograd3x3
