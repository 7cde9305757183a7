// The sizes of cuda_tiles.h's blocks, and how they lay out their shared memory.
#pragma once
#include <c10/util/Exception.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/warp_product.h"

namespace fovea::kernels::cuda {

inline constexpr int kTileKeys = 64;
inline constexpr int kTileThreads = 128;  // at most

struct JobSize {
  int dim;            // head_dim
  int queries, keys;  // of the longest sequence
  bool vectors;       // everything is IsVectorAligned
};

inline JobSize SizeOf(int64_t dim, int64_t queries, int64_t keys, bool vectors) {
  constexpr int64_t kMost = 1 << 30;
  TORCH_CHECK(dim <= kMost && queries <= kMost && keys <= kMost, "at most ", kMost,
              " channels, queries and keys fit a CUDA kernel, not ", dim, ", ", queries, " and ",
              keys);
  return {static_cast<int>(dim), static_cast<int>(queries), static_cast<int>(keys), vectors};
}

// What can be chosen before a launch. kDepth: head_dim rounded up where it is unrolled, else 0.
template <class T, class Job, int kDepth>
struct TileLayout {
  static constexpr int kChannels = kDepth == 32 ? 32 : 64;  // of the output, in a block
  static constexpr int kValueRow = kChannels + kRowPad<T>;

  int rows, depth, key_rows, buffers, chunks;
  int64_t keys, values, weights, end;  // bytes from the beginning of shared memory

  FOVEA_HOST_DEVICE explicit TileLayout(const JobSize& size) {
    const int warps = (size.queries + kWarpRows - 1) / kWarpRows;
    rows = (warps < kTileThreads / 32 ? warps : kTileThreads / 32) * kWarpRows;
    depth = kDepth > 0 ? kDepth : (size.dim + 15) / 16 * 16;
    key_rows = size.keys < kTileKeys ? (size.keys + 15) / 16 * 16 : kTileKeys;
    buffers = Job::kTaps > 1 || size.keys > kTileKeys ? 2 : 1;
    chunks = (size.dim + kChannels - 1) / kChannels;
    keys = RowBytes(Job::Sequence::QueryRows(rows), KeyRow());
    values = keys + RowBytes(buffers * key_rows, KeyRow());
    weights = values + RowBytes(key_rows, kValueRow);
    end = weights + (kOnTensorCores<T> ? 0 : RowBytes(rows, kWeightRow<kTileKeys>));
  }

  FOVEA_HOST_DEVICE int Threads() const { return rows / kWarpRows * 32; }
  FOVEA_HOST_DEVICE int KeyRow() const { return depth + kRowPad<T>; }
  FOVEA_HOST_DEVICE static int64_t RowBytes(int64_t rows, int64_t row) {
    return rows * row * static_cast<int64_t>(sizeof(T));
  }
};

// Calls run(std::integral_constant<int, kDepth>).
template <class Run>
void ForDepth(int64_t dim, const Run& run) {
  if (dim <= 32) {
    run(std::integral_constant<int, 32>{});
  } else if (dim <= 64) {
    run(std::integral_constant<int, 64>{});
  } else {
    run(std::integral_constant<int, 0>{});
  }
}

}  // namespace fovea::kernels::cuda
