#include "client/cpp/grey_png.h"

#include <png.h>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"

namespace fovea::client {

absl::StatusOr<std::vector<uint8_t>> ReadGreyPng(std::string_view file, int64_t height,
                                                 int64_t width) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const absl::Cleanup free = [&] { png_image_free(&image); };
  // The format is the file's own until another one is asked for: nothing is converted.
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0 ||
      image.format != PNG_FORMAT_GRAY || image.height != height || image.width != width) {
    return absl::InvalidArgumentError("no PNG in grey of that size");
  }
  std::vector<uint8_t> levels(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, /*background=*/nullptr, levels.data(), /*row_stride=*/0,
                            /*colormap=*/nullptr) == 0) {
    return absl::InvalidArgumentError("the PNG is broken");
  }
  return levels;
}

}  // namespace fovea::client
