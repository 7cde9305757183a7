// GIF89a: a screen with a colour table, then blocks; the picture is the first image of them.
#include <algorithm>

#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr size_t kScreenBytes = 13;  // signature, size, flags, background, aspect ratio
constexpr size_t kImageBytes = 9;    // place, size, flags
constexpr char kExtension = '!', kImage = ',', kTrailer = ';';

size_t ColourTableBytes(uint8_t flags) {
  return (flags & 0x80) != 0 ? size_t{3} << ((flags & 7) + 1) : 0;
}

// Skips sub-blocks, each a length and as many bytes, up to and including the empty one. False if
// they do not end.
bool SkipBlocks(Bytes file, size_t* at) {
  while (*at < file.size()) {
    const uint8_t length = U8(file, (*at)++);
    if (length == 0) return true;
    if (file.size() - *at < length) return false;
    *at += length;
  }
  return false;
}

// Finds the first image, and sets `*at` to the position after its descriptor.
absl::StatusOr<ImageInfo> ReadFirstImage(Bytes encoded, const ImageLimits& limits, size_t* at) {
  if (encoded.size() < kScreenBytes) return Truncated();
  *at = kScreenBytes + ColourTableBytes(U8(encoded, 10));
  int64_t metadata_bytes = 0;
  while (*at < encoded.size()) {
    const char kind = static_cast<char>(U8(encoded, (*at)++));
    if (kind == kTrailer) return Corrupt("it holds no pixels");
    if (kind == kExtension) {
      const size_t start = (*at)++;
      if (!SkipBlocks(encoded, at)) return Truncated();
      metadata_bytes += static_cast<int64_t>(*at - start);
      if (metadata_bytes > limits.max_metadata_bytes) return MetadataTooLarge(limits);
      continue;
    }
    if (kind != kImage) return Corrupt("a block's kind");
    if (encoded.size() - *at < kImageBytes) return Truncated();
    const Bytes image = encoded.subspan(*at, kImageBytes);
    const int width = U16Little(image, 4), height = U16Little(image, 6);
    if (width == 0 || height == 0) return Corrupt("its width or height is zero");
    ImageInfo info{.format = ImageFormat::kGif};
    // An image that is larger than the screen widens it, as in Pillow.
    info.width = std::max<int>(U16Little(encoded, 6), U16Little(image, 0) + width);
    info.height = std::max<int>(U16Little(encoded, 8), U16Little(image, 2) + height);
    FOVEA_RETURN_IF_ERROR(CheckSize(info.width, info.height, limits));
    *at += kImageBytes + ColourTableBytes(U8(image, 8));
    return info;
  }
  return Truncated();
}

}  // namespace

std::optional<ImageInfo> PeekGif(Bytes beginning) {
  size_t at = 0;
  const absl::StatusOr<ImageInfo> info = ReadFirstImage(beginning, {}, &at);
  return info.ok() ? std::optional(*info) : std::nullopt;
}

absl::StatusOr<ImageInfo> ProbeGif(Bytes encoded, const ImageLimits& limits) {
  size_t at = 0;
  FOVEA_ASSIGN_OR_RETURN(ImageInfo info, ReadFirstImage(encoded, limits, &at));
  ++at;  // the codes' first size
  if (!SkipBlocks(encoded, &at)) return Truncated();
  info.encoded_bytes = static_cast<int64_t>(at);
  return info;
}

}  // namespace fovea
