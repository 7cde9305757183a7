#include "server/imaging/image.h"

namespace fovea {

const char* ImageFormatName(ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg:
      return "JPEG";
    case ImageFormat::kPng:
      return "PNG";
    case ImageFormat::kWebp:
      return "WebP";
    case ImageFormat::kGif:
      return "GIF";
    case ImageFormat::kBmp:
      return "BMP";
    case ImageFormat::kTiff:
      return "TIFF";
    case ImageFormat::kAvif:
      return "AVIF";
  }
  return "?";
}

RgbImage RgbImage::Allocate(int height, int width) {
  RgbImage image{.height = height, .width = width};
  image.pixels = std::make_unique_for_overwrite<uint8_t[]>(image.size());
  return image;
}

RgbImage RgbImage::Filled(int height, int width, const Rgb& colour) {
  RgbImage image = Allocate(height, width);
  for (size_t i = 0; i < image.size(); i += 3) {
    for (size_t c = 0; c < 3; ++c) image.pixels[i + c] = colour[c];
  }
  return image;
}

}  // namespace fovea
