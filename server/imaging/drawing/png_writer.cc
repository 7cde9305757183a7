#include "server/imaging/drawing/png_writer.h"

#include <png.h>

#include "base/out_of_memory.h"
#include "base/status.h"

namespace fovea {

absl::StatusOr<std::string> EncodePng(const RgbImage& image) {
  return OrOutOfMemory([&]() -> absl::StatusOr<std::string> {
    png_image header{.version = PNG_IMAGE_VERSION};
    header.width = static_cast<png_uint_32>(image.width);
    header.height = static_cast<png_uint_32>(image.height);
    header.format = PNG_FORMAT_RGB;
    // What it takes at most, before the pixels are looked at.
    std::string encoded(PNG_IMAGE_PNG_SIZE_MAX(header), '\0');
    png_alloc_size_t size = encoded.size();
    if (!png_image_write_to_memory(&header, encoded.data(), &size, /*convert_to_8bit=*/0,
                                   image.pixels.get(), /*row_stride=*/0, /*colormap=*/nullptr)) {
      return Internal("image.codec_failed", "the picture could not be encoded");
    }
    encoded.resize(size);
    return encoded;
  });
}

}  // namespace fovea
