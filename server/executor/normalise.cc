#include "server/executor/normalise.h"

namespace fovea {

Normalisation Normalisation::From(const std::array<float, 3>& mean,
                                  const std::array<float, 3>& std) {
  Normalisation result;
  for (int channel = 0; channel < 3; ++channel) {
    result.scale[channel] = 1.0f / (255.0f * std[channel]);
    result.offset[channel] = -mean[channel] / std[channel];
  }
  return result;
}

void NormaliseImage(const uint8_t* rgb, size_t pixels, const Normalisation& normalisation,
                    float* planes) {
  float* __restrict red = planes;
  float* __restrict green = planes + pixels;
  float* __restrict blue = planes + 2 * pixels;
  const auto [scale, offset] = normalisation;
  for (size_t i = 0; i < pixels; ++i) {
    red[i] = rgb[3 * i] * scale[0] + offset[0];
    green[i] = rgb[3 * i + 1] * scale[1] + offset[1];
    blue[i] = rgb[3 * i + 2] * scale[2] + offset[2];
  }
}

}  // namespace fovea
