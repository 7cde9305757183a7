#include "server/executor/normalise.h"

namespace fovea {
namespace {

void NormaliseRow(const uint8_t* rgb, int64_t pixels, const Normalisation& normalisation,
                  float* planes, int64_t plane) {
  float* __restrict red = planes;
  float* __restrict green = planes + plane;
  float* __restrict blue = planes + 2 * plane;
  const auto [scale, offset] = normalisation;
  for (int64_t i = 0; i < pixels; ++i) {
    red[i] = rgb[3 * i] * scale[0] + offset[0];
    green[i] = rgb[3 * i + 1] * scale[1] + offset[1];
    blue[i] = rgb[3 * i + 2] * scale[2] + offset[2];
  }
}

}  // namespace

Normalisation Normalisation::From(const std::array<float, 3>& mean,
                                  const std::array<float, 3>& std) {
  Normalisation result;
  for (int channel = 0; channel < 3; ++channel) {
    result.scale[channel] = 1.0f / (255.0f * std[channel]);
    result.offset[channel] = -mean[channel] / std[channel];
  }
  return result;
}

void NormaliseImage(const uint8_t* rgb, int64_t height, int64_t width,
                    const Normalisation& normalisation, float* planes, const RowPitch& pitch) {
  if (pitch.row == width) {
    NormaliseRow(rgb, height * width, normalisation, planes, pitch.plane);
    return;
  }
  for (int64_t y = 0; y < height; ++y) {
    NormaliseRow(rgb + 3 * width * y, width, normalisation, planes + pitch.row * y, pitch.plane);
  }
}

}  // namespace fovea
