// Bytes of an image to the numbers that a model takes.
#pragma once

#include <array>
#include <cstdint>

namespace fovea {

// Per channel R, G, B: (byte / 255 - mean) / std, as one multiplication and one addition.
struct Normalisation {
  std::array<float, 3> scale;
  std::array<float, 3> offset;

  static Normalisation From(const std::array<float, 3>& mean, const std::array<float, 3>& std);
};

// Where rows and planes of a larger image begin, in numbers.
struct RowPitch {
  int64_t row = 0;
  int64_t plane = 0;
};

// rgb: [height, width, 3]. Writes the upper left corner of `planes`: FP32 [3, height, width], a row
// and a plane after the other as `pitch` says. The rest is left alone.
void NormaliseImage(const uint8_t* rgb, int64_t height, int64_t width,
                    const Normalisation& normalisation, float* planes, const RowPitch& pitch);

}  // namespace fovea
