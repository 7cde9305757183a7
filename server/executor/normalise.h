// Bytes of an image to the numbers that a model takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace fovea {

// Per channel R, G, B: (byte / 255 - mean) / std, as one multiplication and one addition.
struct Normalisation {
  std::array<float, 3> scale;
  std::array<float, 3> offset;

  static Normalisation From(const std::array<float, 3>& mean, const std::array<float, 3>& std);
};

// rgb: `pixels` pixels of 3 interleaved bytes; planes: FP32 [3, pixels].
void NormaliseImage(const uint8_t* rgb, size_t pixels, const Normalisation& normalisation,
                    float* planes);

}  // namespace fovea
