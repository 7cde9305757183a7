#include <algorithm>

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
  // A block stored and unpacked, each block's place, what libtiff keeps of other tags (bytes may
  // become numbers of four), and libjpeg's coefficients.
  info.buffer_bytes = static_cast<int64_t>(encoded.size()) + page.block_bytes() + 64 * page.blocks +
                      4 * page.metadata_bytes +
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
