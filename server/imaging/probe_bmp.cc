#include "server/imaging/bmp_header.h"
#include "server/imaging/probe_formats.h"

namespace fovea {

std::optional<ImageInfo> PeekBmp(Bytes beginning) {
  BmpHeader header;
  if (ReadBmpHeader(beginning, &header) != BmpProblem::kNone ||
      !CheckSize(header.width, header.height, {}).ok()) {
    return std::nullopt;
  }
  return ImageInfo{.format = ImageFormat::kBmp,
                   .width = static_cast<int>(header.width),
                   .height = static_cast<int>(header.height)};
}

absl::StatusOr<ImageInfo> ProbeBmp(Bytes encoded, const ImageLimits& limits) {
  BmpHeader header;
  switch (ReadBmpHeader(encoded, &header)) {
    case BmpProblem::kNone:
      break;
    case BmpProblem::kTruncated:
      return Truncated();
    case BmpProblem::kNotBmp:
      return UnknownKind(encoded);
    case BmpProblem::kUnsupported:
      return InvalidArgument("image.unsupported_type",
                             "a BMP image of a bit depth or compression that is not read: convert "
                             "it to JPEG or PNG");
  }
  FOVEA_RETURN_IF_ERROR(CheckSize(header.width, header.height, limits));
  if (header.pixels_at > encoded.size()) return Truncated();
  const bool runs =
      header.coding == BmpCoding::kRunsOfBytes || header.coding == BmpCoding::kRunsOfNibbles;
  const size_t pixels = runs ? encoded.size() - header.pixels_at
                             : header.row_bytes() * static_cast<size_t>(header.height);
  if (encoded.size() - header.pixels_at < pixels) return Truncated();
  ImageInfo info{.format = ImageFormat::kBmp,
                 .width = static_cast<int>(header.width),
                 .height = static_cast<int>(header.height)};
  info.encoded_bytes = static_cast<int64_t>(header.pixels_at + pixels);
  return info;
}

}  // namespace fovea
