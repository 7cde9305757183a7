// 16-bit floating-point formats.
#pragma once
#include <bit>
#include <cstdint>

namespace fovea::ptx {

inline float FloatOfBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
float FloatOfF16(uint16_t bits);

// To the nearest, ties to even; NaN gives 0x7FFF, as on a GPU.
uint16_t Bf16Of(float x);
uint16_t F16Of(float x);

}  // namespace fovea::ptx
