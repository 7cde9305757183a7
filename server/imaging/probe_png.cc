// PNG's header (ISO/IEC 15948, section 11.2.1) and the walk over its chunks.
#include "base/exif.h"
#include "server/imaging/png_chunks.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr int kInterlacedPasses = 7;  // Adam7

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

bool IsStartOfEnd(Bytes rest) {
  constexpr std::string_view kEnd("\0\0\0\0IEND\xae\x42\x60\x82", 12);
  return rest.size() < kEnd.size() && StartsWith(rest, 0, kEnd.substr(0, rest.size()));
}

absl::Status Header(const PngChunk& chunk, const ImageLimits& limits, ImageInfo& info) {
  if (chunk.type == "CgBI") {
    return InvalidArgument(
        "image.unsupported_type",
        "the image is an iPhone's own form of PNG (CgBI), which only Apple's "
        "programs read: convert it to PNG, by pngcrush -revert-iphone-optimizations");
  }
  if (chunk.type != "IHDR" || chunk.data.size() != 13 || !PngChecksumMatches(chunk)) {
    return Corrupt("its header");
  }
  const uint32_t width = U32Big(chunk.data, 0);
  const uint32_t height = U32Big(chunk.data, 4);
  const int interlaced = U8(chunk.data, 12);
  info.bit_depth = U8(chunk.data, 8);
  info.components = Components(U8(chunk.data, 9), info.bit_depth);
  if (info.components == 0 || U8(chunk.data, 10) != 0 || U8(chunk.data, 11) != 0 ||
      interlaced > 1) {
    return Corrupt("its header");
  }
  if (interlaced == 1) info.scans = kInterlacedPasses;
  FOVEA_RETURN_IF_ERROR(CheckSize(width, height, limits));
  info.width = static_cast<int>(width);
  info.height = static_cast<int>(height);
  return absl::OkStatus();
}

}  // namespace

std::optional<ImageInfo> PeekPng(Bytes beginning) {
  ImageInfo info{.format = ImageFormat::kPng};
  const absl::StatusOr<PngChunk> first = ReadPngChunk(beginning, kPngSignature.size());
  if (!first.ok() || !Header(*first, {}, info).ok()) return std::nullopt;
  return info;
}

absl::StatusOr<ImageInfo> ProbePng(Bytes encoded, const ImageLimits& limits) {
  ImageInfo info{.format = ImageFormat::kPng};
  int64_t metadata_bytes = 0;
  bool has_pixels = false;
  bool has_exif = false;
  for (size_t at = kPngSignature.size();;) {
    // Some writers and copies truncate the last chunk, which holds nothing.
    if (has_pixels && IsStartOfEnd(encoded.subspan(at))) {
      info.encoded_bytes = static_cast<int64_t>(encoded.size());
      return info;
    }
    FOVEA_ASSIGN_OR_RETURN(const PngChunk chunk, ReadPngChunk(encoded, at));
    at += chunk.whole.size();
    if (info.width == 0) {
      FOVEA_RETURN_IF_ERROR(Header(chunk, limits, info));
    } else if (chunk.type == "IEND") {
      if (!has_pixels) return Corrupt("it holds no pixels");
      info.encoded_bytes = static_cast<int64_t>(at);
      return info;
    } else if (chunk.type == "IDAT") {
      has_pixels = true;
    } else if (chunk.type != "PLTE" && chunk.type != "fdAT") {  // a later frame's pixels
      metadata_bytes += static_cast<int64_t>(chunk.whole.size());
      if (metadata_bytes > limits.max_metadata_bytes) return MetadataTooLarge(limits);
      if (chunk.type == "eXIf" && !has_exif && PngChecksumMatches(chunk)) {
        has_exif = true;
        info.orientation = ExifOrientation(chunk.data);
      }
    }
  }
}

}  // namespace fovea
