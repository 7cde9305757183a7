// The seam between cpu.cc, which knows tensors and threads, and cpu_channels_last.cc and
// cpu_planes.cc, which are compiled once per instruction set and know only memory.
#pragma once
#include <cstdint>

namespace fovea::kernels::rp_cpe {

// A [batch, channels, height, width] map; strides in elements.
struct Map {
  void* data;
  int64_t batch, channel, row, column;
};

// [branches, channels * of one channel], contiguous.
struct Branches {
  const void* data;
  bool bf16;  // otherwise fp32
};

// One call, as raw memory.
struct Job {
  bool bf16;  // x and y; otherwise fp32
  bool gelu;  // y = GELU of the convolution
  Map x, y;   // only y is written
  Branches weights, biases;
  int64_t branches, channels, height, width;
  int64_t groups;  // into which ConvolveRows cuts the channels; at most BlockChannels' worth of two
  float* merged;   // MergedFloats
};

inline constexpr int64_t kFactors = 10;  // of a channel: nine taps and the bias

// Channels that ConvolveRows takes at a time with the current instruction set.
int64_t BlockChannels(bool bf16);

// The branches and the skip connection as one convolution, to job.merged.
// For ConvolveRows: block by block of channels, the last one ending with the last channel and so
// overlapping the one before; [kFactors, BlockChannels] each. Blocks [begin, end).
void MergeBlocks(const Job& job, int64_t begin, int64_t end);
// For ConvolvePlanes: [channels, kFactors]. Channels [begin, end).
void MergeChannels(const Job& job, int64_t begin, int64_t end);

// Rows [begin, end) of a map whose channels are contiguous and no fewer than a block, counted
// through all rows of a group of channels, all groups, all batch entries.
void ConvolveRows(const Job& job, int64_t begin, int64_t end);

// Planes [begin, end) of a map whose columns are contiguous, counted through all channels of all
// batch entries. `scratch`: PlaneScratchFloats.
int64_t PlaneScratchFloats(const Job& job);
void ConvolvePlanes(const Job& job, float* scratch, int64_t begin, int64_t end);

}  // namespace fovea::kernels::rp_cpe
