// How samples that no library turns into 8-bit RGB become it. All on contiguous rows of `pixels`
// pixels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fovea {

// CMYK as Adobe's programs write it into a JPEG, 255 meaning no ink, to RGB = (1 - ink) * (1 -
// black), rounded. That reading is taken for every CMYK JPEG, whether or not an Adobe marker says
// so: without one hardly anything else is found in the wild, and Pillow and OpenCV read them so.
void InvertedCmykToRgb(size_t pixels, const uint8_t* cmyk, uint8_t* rgb);

// (colour * alpha + background * (255 - alpha)) / 255, rounded, as Pillow's Image.paste with a
// mask.
void RgbaOverBackground(size_t pixels, const uint8_t* rgba,
                        const std::array<uint8_t, 3>& background, uint8_t* rgb);

}  // namespace fovea
