#include <algorithm>

#include "base/limits.h"
#include "server/imaging/probe_formats.h"
#include "server/imaging/tiff_directory.h"

namespace fovea {

absl::StatusOr<ImageInfo> ProbeTiff(Bytes encoded, const ImageLimits& limits) {
  FOVEA_ASSIGN_OR_RETURN(const TiffPage page, ReadTiffPage(encoded, limits));
  ImageInfo info{.format = ImageFormat::kTiff,
                 .width = static_cast<int>(page.width),
                 .height = static_cast<int>(page.height),
                 .orientation = page.orientation,
                 .bit_depth = page.bits};
  // The codec's tables, a block stored and unpacked, each block's place, other tags (libtiff makes
  // numbers of four bytes of some tags' bytes, and copies them), and libjpeg's coefficients.
  info.buffer_bytes = limits::kMiB + static_cast<int64_t>(encoded.size()) + page.block_bytes() +
                      64 * page.blocks + 8 * page.metadata_bytes +
                      (page.is_jpeg ? 2 * std::max(page.block_bytes(), page.jpeg_coefficients) : 0);
  info.encoded_bytes = static_cast<int64_t>(encoded.size());
  return info;
}

// Small files only: the directory usually follows the pixels.
std::optional<ImageInfo> PeekTiff(Bytes beginning) {
  const absl::StatusOr<ImageInfo> info = ProbeTiff(beginning, {});
  return info.ok() ? std::optional(*info) : std::nullopt;
}

}  // namespace fovea
