// PNG (ISO/IEC 15948), section 5: a signature, then chunks of length, type, data and checksum, the
// last one IEND.
#include <zlib.h>

#include "server/imaging/exif.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr size_t kAroundData = 12;  // length, type, checksum
constexpr uint32_t kMaxChunk = 0x7fffffff;

bool IsLetter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

// The components that a colour type stands for; 0 where the type or its bit depth is not defined.
int Components(int color_type, int bit_depth) {
  const bool byte_or_two = bit_depth == 8 || bit_depth == 16;
  const bool up_to_byte = bit_depth == 1 || bit_depth == 2 || bit_depth == 4 || bit_depth == 8;
  switch (color_type) {
    case 0:
      return up_to_byte || bit_depth == 16 ? 1 : 0;
    case 2:
      return byte_or_two ? 3 : 0;
    case 3:
      return up_to_byte ? 3 : 0;
    case 4:
      return byte_or_two ? 2 : 0;
    case 6:
      return byte_or_two ? 4 : 0;
    default:
      return 0;
  }
}

absl::Status Header(const PngChunk& chunk, const ImageLimits& limits, ImageInfo& info) {
  if (chunk.type != "IHDR" || chunk.data.size() != 13 || !PngChecksumMatches(chunk)) {
    return Corrupt("its header");
  }
  const uint32_t width = U32Big(chunk.data, 0);
  const uint32_t height = U32Big(chunk.data, 4);
  info.bit_depth = U8(chunk.data, 8);
  info.components = Components(U8(chunk.data, 9), info.bit_depth);
  if (info.components == 0 || U8(chunk.data, 10) != 0 || U8(chunk.data, 11) != 0 ||
      U8(chunk.data, 12) > 1) {
    return Corrupt("its header");
  }
  FOVEA_RETURN_IF_ERROR(CheckSize(width, height, limits));
  info.width = static_cast<int>(width);
  info.height = static_cast<int>(height);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<size_t> WalkPng(Bytes encoded,
                               absl::FunctionRef<absl::Status(const PngChunk&)> visit) {
  size_t at = kPngSignature.size();
  for (;;) {
    if (encoded.size() - at < kAroundData) return Truncated();
    const uint32_t length = U32Big(encoded, at);
    const std::string_view type(reinterpret_cast<const char*>(encoded.data()) + at + 4, 4);
    if (length > kMaxChunk) return Corrupt("a chunk's length");
    for (const char letter : type) {
      if (!IsLetter(letter)) return Corrupt("a chunk's type");
    }
    if (encoded.size() - at - kAroundData < length) return Truncated();
    const PngChunk chunk{.type = type,
                         .data = encoded.subspan(at + 8, length),
                         .whole = encoded.subspan(at, length + kAroundData)};
    FOVEA_RETURN_IF_ERROR(visit(chunk));
    at += chunk.whole.size();
    if (type == "IEND") return at;
  }
}

bool PngChecksumMatches(const PngChunk& chunk) {
  const Bytes summed = chunk.whole.subspan(4, chunk.data.size() + 4);
  const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(summed.data()), summed.size());
  return sum == U32Big(chunk.whole, chunk.data.size() + 8);
}

std::optional<ImageInfo> PeekPng(Bytes beginning) {
  ImageInfo info{.format = ImageFormat::kPng};
  const ImageLimits limits;
  const auto visit = [&](const PngChunk& chunk) -> absl::Status {
    FOVEA_RETURN_IF_ERROR(Header(chunk, limits, info));
    return absl::CancelledError();  // nothing behind the first chunk is of interest
  };
  (void)WalkPng(beginning, visit);
  return info.width == 0 ? std::nullopt : std::optional(info);
}

absl::StatusOr<ImageInfo> ProbePng(Bytes encoded, const ImageLimits& limits) {
  ImageInfo info{.format = ImageFormat::kPng};
  int64_t metadata_bytes = 0;
  bool has_pixels = false;
  bool has_exif = false;
  const auto visit = [&](const PngChunk& chunk) -> absl::Status {
    if (info.width == 0) return Header(chunk, limits, info);
    if (chunk.type == "IDAT") {
      has_pixels = true;
    } else if (chunk.type == "acTL") {
      return InvalidArgument("image.animated", "animated PNG images are not accepted");
    } else if (chunk.type != "PLTE" && chunk.type != "IEND") {
      metadata_bytes += static_cast<int64_t>(chunk.whole.size());
      if (metadata_bytes > limits.max_metadata_bytes) return MetadataTooLarge(limits);
      if (chunk.type == "eXIf" && !has_exif && PngChecksumMatches(chunk)) {
        has_exif = true;
        info.orientation = ExifOrientation(chunk.data);
      }
    }
    return absl::OkStatus();
  };
  FOVEA_ASSIGN_OR_RETURN(const size_t end, WalkPng(encoded, visit));
  if (!has_pixels) return Corrupt("it holds no pixels");
  info.encoded_bytes = static_cast<int64_t>(end);
  return info;
}

}  // namespace fovea
