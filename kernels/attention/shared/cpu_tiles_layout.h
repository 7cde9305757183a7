// Where what a thread needs for attention on AMX's tiles lies in its scratch.
#pragma once
#include <cstdint>

#include "kernels/attention/shared/cpu_token_sets.h"
#include "kernels/simd/amx_layout.h"

namespace fovea::kernels::attend {
using simd::kRegister;
using simd::kSide;
using simd::kStep;
using simd::OddLines;
using simd::Plane;
using simd::RoundUp;

// Keys whose weights are made at a time.
constexpr int64_t TilesChunk(int64_t parts) { return parts == 3 ? 128 : 64; }

// Where what a thread needs lies in its scratch; bf16 parts are planes of it.
struct TilesLayout {
  explicit TilesLayout(const TokenSetsJob& job)
      : parts(job.arithmetic == Arithmetic::kFp32 ? 3 : 1),
        depth(RoundUp(job.dim, kStep)),
        value_depth(RoundUp(job.value_dim, kStep)),
        keys(RoundUp(job.keys, kStep)),
        query_stride(OddLines(depth, 2)),
        logits_stride(OddLines(keys, 4)),
        weights_stride(OddLines(TilesChunk(parts), 2)),
        output_stride(OddLines(value_depth, 4)),
        key_plane(Plane(keys * depth)),
        value_plane(Plane(keys * value_depth)),
        query_plane(Plane(kSide * query_stride)),
        weights_plane(Plane(kSide * weights_stride)) {
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
    bytes += RoundUp(size, 64);
    return at;
  }
};

}  // namespace fovea::kernels::attend
