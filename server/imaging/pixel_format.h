// How samples of every kind become 8-bit RGB. All on contiguous rows of `pixels` pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "server/imaging/image.h"

namespace fovea {

// 16 bits to 8: value * 255 / 65535, rounded to nearest (the division is by 257, whose half is no
// integer: no ties).
inline uint8_t To8Bits(uint16_t value) { return static_cast<uint8_t>((value + 128u) / 257u); }

void To8Bits(std::span<const uint16_t> from, std::span<uint8_t> to);

// CMYK as Adobe's programs write it into a JPEG, 255 meaning no ink, to RGB = (1 - ink) * (1 -
// black), rounded. That reading is taken for every CMYK JPEG, whether or not an Adobe marker says
// so: without one hardly anything else is found in the wild, and Pillow and OpenCV read them so.
void InvertedCmykToRgb(size_t pixels, const uint8_t* cmyk, uint8_t* rgb);

void GrayToRgb(size_t pixels, const uint8_t* gray, uint8_t* rgb);

// A PNG's one transparent grey: where `gray`, at the file's own depth, equals `key` the pixel is
// the background's.
template <typename Sample>
void ReplaceKey(size_t pixels, const Sample* gray, Sample key, const Rgb& background,
                uint8_t* rgb) {
  for (size_t i = 0; i < pixels; ++i) {
    if (gray[i] != key) continue;
    for (int c = 0; c < 3; ++c) rgb[3 * i + c] = background[c];
  }
}

// OpenCV's orders.
void BgrToRgb(size_t pixels, const uint8_t* bgr, uint8_t* rgb);
// (colour * alpha + background * (255 - alpha)) / 255, rounded, as Pillow's Image.paste with a
// mask.
void BgraOverBackground(size_t pixels, const uint8_t* bgra, const Rgb& background, uint8_t* rgb);

}  // namespace fovea
