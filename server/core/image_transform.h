// Where a model's pixels lie in the caller's image.
#pragma once

#include <cstdint>
#include <vector>

namespace fovea {

// The image, turned upright, was resized to resized_height x resized_width; the model saw the
// window of height x width that begins at (top, left), in the upper left corner of its input. The
// rest of the input, where there is one, shows nothing. All in pixels.
struct ImageTransform {
  int64_t source_height = 0, source_width = 0;
  int64_t resized_height = 0, resized_width = 0;
  int64_t top = 0, left = 0;
  int64_t height = 0, width = 0;
  int64_t input_height = 0, input_width = 0;

  // Of an image that the model sees as it is.
  static ImageTransform Identity(int64_t height, int64_t width) {
    return {height, width, height, width, 0, 0, height, width, height, width};
  }

  // A coordinate of the model's input in the caller's image. Both count from the outer edge of the
  // first pixel, whose middle is 0.5: the ends of a box are such coordinates.
  double SourceX(double x) const {
    return (x + static_cast<double>(left)) * static_cast<double>(source_width) /
           static_cast<double>(resized_width);
  }
  double SourceY(double y) const {
    return (y + static_cast<double>(top)) * static_cast<double>(source_height) /
           static_cast<double>(resized_height);
  }

  // The way back.
  double InputX(double x) const {
    return x * static_cast<double>(resized_width) / static_cast<double>(source_width) -
           static_cast<double>(left);
  }
  double InputY(double y) const {
    return y * static_cast<double>(resized_height) / static_cast<double>(source_height) -
           static_cast<double>(top);
  }

  bool operator==(const ImageTransform&) const = default;
};

// Of the pixels that a model took for its images, one input each, the share that shows nothing of
// them. `images`: how high and wide each one is in its input. At least one.
template <typename Image>
double PaddingOf(const std::vector<Image>& images, int64_t input_height, int64_t input_width) {
  int64_t shown = 0;
  for (const Image& image : images) shown += image.height * image.width;
  return 1 - static_cast<double>(shown) / static_cast<double>(input_height * input_width) /
                 static_cast<double>(images.size());
}

}  // namespace fovea
