#include "tests/kernels/ptx/number_formats.h"

#include <algorithm>
#include <cmath>

namespace fovea::ptx {
namespace {

constexpr int kF16Mantissa = 10;        // bits
constexpr int kF16LeastExponent = -14;  // of normal numbers
constexpr int kF16Bias = 15;
constexpr float kF16Overflow = 65520.0f;  // rounds to infinity, as does what is larger
constexpr uint16_t kNaN = 0x7FFF;

}  // namespace

float FloatOfF16(uint16_t bits) {
  const int exponent = bits >> kF16Mantissa & 0x1F;
  const int mantissa = bits & 0x3FF;
  float x;
  if (exponent == 0x1F) {
    x = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    x = std::ldexp(static_cast<float>(mantissa), kF16LeastExponent - kF16Mantissa);
  } else {
    x = std::ldexp(static_cast<float>(mantissa | 1 << kF16Mantissa),
                   exponent - kF16Bias - kF16Mantissa);
  }
  return bits >> 15 != 0 ? -x : x;
}

uint16_t Bf16Of(float x) {
  if (std::isnan(x)) return kNaN;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

uint16_t F16Of(float x) {
  if (std::isnan(x)) return kNaN;
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const float size = std::abs(x);
  if (size >= kF16Overflow) return sign | 0x7C00;
  if (size == 0.0f) return sign;
  const int exponent = std::max(std::ilogb(size), kF16LeastExponent);
  // In units of the last place; carries into the exponent as it should.
  const auto mantissa =
      static_cast<uint16_t>(std::nearbyint(std::ldexp(size, kF16Mantissa - exponent)));
  const int field = exponent + kF16Bias - 1;  // the mantissa's leading bit adds 1
  return static_cast<uint16_t>(sign | ((field << kF16Mantissa) + mantissa));
}

}  // namespace fovea::ptx
