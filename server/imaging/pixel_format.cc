#include "server/imaging/pixel_format.h"

#include "server/core/check.h"

namespace fovea {
namespace {

// value / 255 rounded to nearest, exact for value <= 255 * 255.
uint8_t DivideBy255(uint32_t value) {
  value += 128;
  return static_cast<uint8_t>((value + (value >> 8)) >> 8);
}

}  // namespace

void To8Bits(std::span<const uint16_t> from, std::span<uint8_t> to) {
  FOVEA_CHECK(from.size() == to.size());
  for (size_t i = 0; i < from.size(); ++i) to[i] = To8Bits(from[i]);
}

void InvertedCmykToRgb(size_t pixels, const uint8_t* cmyk, uint8_t* rgb) {
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t light = cmyk[4 * i + 3];  // 255 - black
    for (int c = 0; c < 3; ++c) {
      const uint32_t ink = 255 - cmyk[4 * i + c];
      rgb[3 * i + c] = static_cast<uint8_t>(light - DivideBy255(ink * light));
    }
  }
}

void GrayToRgb(size_t pixels, const uint8_t* gray, uint8_t* rgb) {
  for (size_t i = 0; i < pixels; ++i) {
    for (int c = 0; c < 3; ++c) rgb[3 * i + c] = gray[i];
  }
}

void BgrToRgb(size_t pixels, const uint8_t* bgr, uint8_t* rgb) {
  for (size_t i = 0; i < pixels; ++i) {
    for (int c = 0; c < 3; ++c) rgb[3 * i + c] = bgr[3 * i + 2 - c];
  }
}

void BgraOverBackground(size_t pixels, const uint8_t* bgra, const Rgb& background, uint8_t* rgb) {
  for (size_t i = 0; i < pixels; ++i) {
    const uint32_t alpha = bgra[4 * i + 3];
    for (int c = 0; c < 3; ++c) {
      rgb[3 * i + c] = DivideBy255(bgra[4 * i + 2 - c] * alpha + background[c] * (255 - alpha));
    }
  }
}

}  // namespace fovea
