// AMX's tiles: eight registers of 16 rows of 64 bytes, and the products of two of them. Inline
// assembly, so that a file that is compiled for AVX-512 can hold them beside Highway's vectors.
//   Only where HasAmxTiles() is true (gemm.h).
#pragma once
#include <cstdint>

namespace fovea::kernels::simd {

#if defined(__x86_64__)

// All tiles of a thread with 16 rows of 64 bytes, for as long as it lives. Products of oneDNN's
// within it would change the layout.
class AmxTiles {
 public:
  AmxTiles() {
    struct alignas(64) {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } layout;
    asm volatile("ldtilecfg %0" : : "m"(layout));
  }
  ~AmxTiles() { asm volatile("tilerelease" : : :); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

template <int kTile>
inline __attribute__((always_inline)) void TileZero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
}

// Rows `stride` bytes apart. The compiler is not told what is read, so that it keeps in registers
// what it knows of other memory: between the writing of the rows and this stands a TileFence.
template <int kTile>
inline __attribute__((always_inline)) void TileLoad(const void* rows, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(stride), "i"(kTile));
}
inline __attribute__((always_inline)) void TileFence() { asm volatile("" : : : "memory"); }

template <int kTile>
inline __attribute__((always_inline)) void TileStore(void* rows, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(stride), "i"(kTile) : "memory");
}

// fp32 sums [16, 16] += bf16 [16, 32] * bf16 [32, 16], the latter in pairs of rows.
template <int kSums, int kA, int kB>
inline __attribute__((always_inline)) void TileMultiplyBf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
}

// s32 sums [16, 16] += s8 [16, 64] * s8 [64, 16], the latter in fours of rows: HasAmxInt8().
template <int kSums, int kA, int kB>
inline __attribute__((always_inline)) void TileMultiplyInt8() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kA), "i"(kB));
}

#endif

}  // namespace fovea::kernels::simd
