// How large an image is.
#pragma once

#include <cstdint>
#include <string>

namespace fovea {

// In pixels.
struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;

  bool operator==(const ImageSize&) const = default;
};

// "224x192": height, then width.
inline std::string ImageSizeText(const ImageSize& size) {
  return std::to_string(size.height) + "x" + std::to_string(size.width);
}

}  // namespace fovea
