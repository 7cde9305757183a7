#include "server/imaging/probe.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/imaging/jpeg_scale.h"
#include "server/imaging/png_chunks.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

constexpr std::string_view kJpegMagic = "\xff\xd8\xff";
constexpr std::string_view kRiffMagic = "RIFF";
constexpr std::string_view kWebpMagic = "WEBP";
constexpr size_t kWebpMagicOffset = 8;

// Whether `encoded` shows the whole of `magic` at `at`, or stops within it having shown no other
// byte.
enum class Match { kNo, kStopsShort, kYes };

Match MatchMagic(Bytes encoded, size_t at, std::string_view magic) {
  if (encoded.size() <= at) return Match::kStopsShort;
  const size_t there = std::min(encoded.size() - at, magic.size());
  if (!StartsWith(encoded, at, magic.substr(0, there))) return Match::kNo;
  return there == magic.size() ? Match::kYes : Match::kStopsShort;
}

// What a library holds whatever the picture's size: tables, windows, a row's buffers.
constexpr int64_t kDecoderBytes = 64 << 10;

// What lossless WebP's tables may take. Photographs need some 100 KB; a mosaic of textures, made
// for the purpose, took 26 bytes a pixel where it was small, and 16 MB where it was large.
int64_t PrefixCodeBytes(int64_t pixels) {
  return std::min(limits::kMiB + 32 * pixels, 32 * limits::kMiB);
}

// Sides are padded to whole blocks of at most 32 pixels; libwebp keeps some 45 rows besides.
int64_t PaddedPixels(int64_t height, int64_t width) {
  return height * width + 48 * (width + height + 32);
}

absl::StatusOr<ImageInfo> ProbeByMagic(Bytes encoded, const ImageLimits& limits) {
  const Match jpeg = MatchMagic(encoded, 0, kJpegMagic);
  const Match png = MatchMagic(encoded, 0, kPngSignature);
  Match webp = MatchMagic(encoded, 0, kRiffMagic);
  if (webp == Match::kYes) webp = MatchMagic(encoded, kWebpMagicOffset, kWebpMagic);
  if (jpeg == Match::kYes) return ProbeJpeg(encoded, limits);
  if (png == Match::kYes) return ProbePng(encoded, limits);
  if (webp == Match::kYes) return ProbeWebp(encoded, limits);
  for (const Match match : {jpeg, png, webp}) {
    if (match == Match::kStopsShort) return Truncated();
  }
  return InvalidArgument("image.unsupported_type", "the data are not a JPEG, PNG or WebP image");
}

}  // namespace

// From the decoders' own allocations.
int64_t DecodeBytes(const ImageInfo& info, int halvings) {
  int64_t per_pixel = 3;  // the result
  int64_t per_stored_pixel = 0;
  int64_t fixed = kDecoderBytes;
  switch (info.format) {
    case ImageFormat::kJpeg:
      if (info.components == 4) per_pixel += 4;  // CMYK before it is converted
      // Every coefficient of the image (16 bits, no subsampling assumed) is kept until the last
      // scan.
      if (info.scans > 1) per_stored_pixel += 2 * info.components;
      break;
    case ImageFormat::kPng:
      // A row at a time; where it is interlaced, and may be transparent, all of it as RGBA.
      if (info.scans > 1) per_pixel += 4;
      break;
    case ImageFormat::kWebp:
      if (info.components == 4) per_pixel += 4;  // RGBA before the background is put behind it
      if (info.lossless) {
        per_pixel += 4;  // libwebp's own picture
        fixed += PrefixCodeBytes(info.pixels());
      }
      break;
  }
  if (info.orientation != 1) per_pixel += 3;
  return PaddedPixels(info.height, info.width) * per_stored_pixel +
         PaddedPixels(DecodedSide(info.height, halvings), DecodedSide(info.width, halvings)) *
             per_pixel +
         fixed;
}

std::optional<ImageInfo> PeekImage(Bytes beginning) {
  if (StartsWith(beginning, 0, kJpegMagic)) return PeekJpeg(beginning);
  if (StartsWith(beginning, 0, kPngSignature)) return PeekPng(beginning);
  const bool webp =
      StartsWith(beginning, 0, kRiffMagic) && StartsWith(beginning, kWebpMagicOffset, kWebpMagic);
  return webp ? PeekWebp(beginning) : std::nullopt;
}

absl::Status Truncated() {
  return InvalidArgument("image.truncated", "the image stops before its end");
}

absl::Status Corrupt(const char* what) {
  return InvalidArgument("image.corrupt", absl::StrCat("the image is damaged: ", what));
}

absl::Status MetadataTooLarge(const ImageLimits& limits) {
  return InvalidArgument("image.metadata_too_large",
                         absl::StrCat("the image holds more than ", limits.max_metadata_bytes,
                                      " bytes besides its pixels"));
}

absl::Status CheckSize(int64_t width, int64_t height, const ImageLimits& limits) {
  if (width <= 0 || height <= 0) return Corrupt("its width or height is zero");
  const auto [shorter, longer] = std::minmax(width, height);
  // Sides come as 32-bit numbers: the product cannot overflow.
  if (longer > limits.max_side || width * height > limits.max_pixels) {
    return InvalidArgument(
        "image.too_many_pixels",
        absl::StrCat("the image has ", width, " x ", height, " pixels; at most ", limits.max_pixels,
                     " are accepted, at most ", limits.max_side, " on a side"));
  }
  if (shorter < limits.min_side) {
    return InvalidArgument("image.too_small",
                           absl::StrCat("the image has ", width, " x ", height,
                                        " pixels; each side needs ", limits.min_side));
  }
  if (longer > shorter * limits.max_aspect_ratio) {
    return InvalidArgument(
        "image.extreme_aspect_ratio",
        absl::StrCat("the image has ", width, " x ", height, " pixels; one side may be at most ",
                     limits.max_aspect_ratio, " times the other"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ImageInfo> ProbeImage(Bytes encoded, const ImageLimits& limits) {
  if (encoded.empty()) return InvalidArgument("image.empty", "the image has no bytes");
  if (static_cast<int64_t>(encoded.size()) > limits.max_encoded_bytes) {
    return ResourceExhausted("image.too_many_bytes",
                             absl::StrCat("the image has ", encoded.size(), " bytes; at most ",
                                          limits.max_encoded_bytes, " are accepted"));
  }
  FOVEA_ASSIGN_OR_RETURN(ImageInfo info, ProbeByMagic(encoded, limits));
  info.decode_bytes = DecodeBytes(info, /*halvings=*/0);
  return info;
}

}  // namespace fovea
