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
  }
  return "?";
}

RgbImage RgbImage::Allocate(int height, int width) {
  RgbImage image{.height = height, .width = width};
  image.pixels = std::make_unique_for_overwrite<uint8_t[]>(image.size());
  return image;
}

}  // namespace fovea
