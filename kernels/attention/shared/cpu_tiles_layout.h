// Where what a thread needs for attention on AMX's tiles lies in its scratch.
#pragma once
#include <cstdint>

#include "kernels/attention/shared/cpu_token_sets.h"

namespace fovea::kernels::attend {
inline constexpr int64_t kSide = 32;      // of a tile of products
inline constexpr int64_t kRegister = 16;  // rows, and fp32 columns, of a register
inline constexpr int64_t kStep = 32;      // of the depth
inline constexpr int64_t kRegisterElements = kRegister * kStep;

constexpr int64_t RoundUpTo(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Elements from row to row: an odd number of cache lines.
constexpr int64_t OddLines(int64_t elements, int64_t element_bytes) {
  const int64_t line = 64 / element_bytes;
  return ((elements + line - 1) / line | 1) * line;
}

// Keys whose weights are made at a time.
constexpr int64_t TilesChunk(int64_t parts) { return parts == 3 ? 128 : 64; }

// Where the parts of a thread's scratch lie; those of bf16 parts are planes.
struct TilesLayout {
  explicit TilesLayout(const TokenSetsJob& job)
      : parts(job.arithmetic == Arithmetic::kFp32 ? 3 : 1),
        depth(RoundUpTo(job.dim, kStep)),
        value_depth(RoundUpTo(job.value_dim, kStep)),
        keys(RoundUpTo(job.keys, kStep)),
        query_stride(OddLines(depth, 2)),
        logits_stride(OddLines(keys, 4)),
        weights_stride(OddLines(TilesChunk(parts), 2)),
        output_stride(OddLines(value_depth, 4)),
        // Not a multiple of a page: storing one would seem to wait for another.
        key_plane(keys * depth + 96),
        value_plane(keys * value_depth + 96),
        query_plane(kSide * query_stride + 96),
        weights_plane(kSide * weights_stride + 96) {
    key = Take(parts * key_plane * 2);
    value = Take(parts * value_plane * 2);
    query = Take(parts * query_plane * 2);
    logits = Take(kSide * logits_stride * 4);
    weights = Take(2 * parts * weights_plane * 2);
    output = Take(kSide * output_stride * 4);
    largest = Take(kSide * kRegister * 4);
    sums = Take(kSide * kRegister * 4);
  }

  int64_t parts;
  int64_t depth, value_depth, keys;                                    // as the tiles have them
  int64_t query_stride, logits_stride, weights_stride, output_stride;  // elements
  int64_t key_plane, value_plane, query_plane, weights_plane;
  // Bytes from the beginning.
  int64_t key, value, query, logits, weights, output, largest, sums;
  int64_t bytes = 0;

  // Where keys are selected (cpu_tiles_nearest-inl.h): two vectors of each key, behind all else.
  int64_t bytes_of_nearest() const { return bytes + 2 * keys * kRegister * 4; }

 private:
  int64_t Take(int64_t size) {
    const int64_t at = bytes;
    bytes += RoundUpTo(size, 64);
    return at;
  }
};

}  // namespace fovea::kernels::attend
