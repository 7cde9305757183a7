// A caller's image as a model takes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/core/image_transform.h"

namespace fovea {

struct ResizedImage {
  std::vector<uint8_t> rgb;  // [transform.height, transform.width, 3]
  ImageTransform transform;
  size_t size = 0;  // of the model's input: a place in ModelView::sizes
};

}  // namespace fovea
