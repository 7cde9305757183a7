#include "model_zoo/model.h"

#include <utility>

namespace fovea::models {

std::vector<at::Tensor> Model::Run(const at::Tensor& pixels, ForwardContext& context) const {
  std::vector<at::Tensor> images = RunBatch(pixels, context);
  for (at::Tensor& image : images) image = image.to(at::kCPU);
  if (images.empty() || !info().finishes) return images;
  const int64_t rows = info().pixel_input == PixelInput::kBytes ? 1 : 2;
  const ImageSize input{pixels.size(rows), pixels.size(rows + 1)};
  std::vector<ImageSize> contents;
  for (int64_t i = 0; i < pixels.size(0); ++i) contents.push_back(context.Content(i, input));
  return Finish(std::move(images), input, contents);
}

}  // namespace fovea::models
