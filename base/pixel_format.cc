#include "base/pixel_format.h"

namespace fovea {
namespace {

// value / 255 rounded to nearest, exact for value <= 255 * 255.
uint8_t DivideBy255(uint32_t value) {
  value += 128;
  return static_cast<uint8_t>((value + (value >> 8)) >> 8);
}

}  // namespace

void InvertedCmykToRgb(size_t pixels, const uint8_t* cmyk, uint8_t* rgb) {
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t light = cmyk[4 * i + 3];  // 255 - black
    for (int c = 0; c < 3; ++c) {
      const uint32_t ink = 255 - cmyk[4 * i + c];
      rgb[3 * i + c] = static_cast<uint8_t>(light - DivideBy255(ink * light));
    }
  }
}

void RgbaOverBackground(size_t pixels, const uint8_t* rgba,
                        const std::array<uint8_t, 3>& background, uint8_t* rgb) {
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t alpha = rgba[4 * i + 3];
    for (int c = 0; c < 3; ++c) {
      rgb[3 * i + c] = DivideBy255(rgba[4 * i + c] * alpha + background[c] * (255 - alpha));
    }
  }
}

}  // namespace fovea
