#include "server/compare/model_pixels.h"

#include <ATen/ATen.h>

#include "server/executor/normalise.h"

namespace fovea {

at::Tensor ModelPixels(const ResizedImage& image, const models::ModelInfo& info,
                       const models::ImageSize& input, const models::Preprocessing& preprocessing) {
  const ImageTransform& seen = image.transform;
  if (info.pixel_input == models::PixelInput::kBytes) {
    const at::Tensor pixels = at::zeros({1, input.height, input.width, 3}, at::kByte);
    const at::Tensor given = at::from_blob(const_cast<uint8_t*>(image.rgb.data()),
                                           {seen.height, seen.width, 3}, at::kByte);
    pixels[0].narrow(0, 0, seen.height).narrow(1, 0, seen.width).copy_(given);
    return pixels;
  }
  const at::Tensor pixels = at::zeros({1, 3, input.height, input.width});
  NormaliseImage(image.rgb.data(), seen.height, seen.width,
                 Normalisation::From(preprocessing.mean, preprocessing.std),
                 pixels.mutable_data_ptr<float>(),
                 {.row = input.width, .plane = input.height * input.width});
  return pixels;
}

}  // namespace fovea
