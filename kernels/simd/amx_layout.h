// How operands of AMX's tiles lie in memory, whatever they are multiplied for.
#pragma once
#include <cstdint>

namespace fovea::kernels::simd {

// A tile of products is 2 x 2 registers of sums.
inline constexpr int64_t kSide = 32;         // its rows and columns
inline constexpr int64_t kRegister = 16;     // rows of a register, and its columns of 32 bits
inline constexpr int64_t kRegisterRow = 64;  // bytes
inline constexpr int64_t kRegisterBytes = kRegister * kRegisterRow;
inline constexpr int64_t kStep = 32;                             // of the depth, in bf16
inline constexpr int64_t kInt8Step = kRegisterRow;               // of the depth, in 8 bits
inline constexpr int64_t kRegisterElements = kRegister * kStep;  // of bf16

// What a thread's scratch may take of its L2, in bytes: of 2 MiB, which every processor with AMX
// has, the rest is for what is read once. Half of it gained nothing on Zen 5, which has 1 MiB
// (linear chains of the zoo's models, 2026-11-28).
inline constexpr int64_t kL2Scratch = 1400 << 10;

constexpr int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Elements from row to row: an odd number of cache lines, so that rows do not fall on one another
// in the caches.
constexpr int64_t OddLines(int64_t elements, int64_t element_bytes) {
  const int64_t line = 64 / element_bytes;
  return ((elements + line - 1) / line | 1) * line;
}

// Elements from plane to plane of bf16 parts: not a multiple of a page, or storing one would seem
// to wait for another.
constexpr int64_t Plane(int64_t elements) { return elements + 96; }

}  // namespace fovea::kernels::simd
