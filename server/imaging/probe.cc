#include "server/imaging/probe.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/picture_signatures.h"
#include "server/imaging/jpeg_scale.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

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

// libavif's and dav1d's contexts, tables and rows of blocks, whatever the size.
constexpr int64_t kAvifDecoderBytes = 8 * limits::kMiB;

// What lossless WebP's tables may take. Photographs need some 100 KB; a mosaic of textures, made
// for the purpose, took 26 bytes a pixel where it was small, and 16 MB where it was large.
int64_t PrefixCodeBytes(int64_t pixels) {
  return std::min(limits::kMiB + 32 * pixels, 32 * limits::kMiB);
}

// Sides are padded to whole blocks of at most 32 pixels; libwebp keeps some 45 rows besides.
int64_t PaddedPixels(int64_t height, int64_t width) {
  return height * width + 48 * (width + height + 32);
}

using Probe = absl::StatusOr<ImageInfo>(Bytes, const ImageLimits&);
using Peek = std::optional<ImageInfo>(Bytes);

struct Format {
  ImageFormat format;
  Probe* probe;
  Peek* peek;
};

constexpr Format kFormats[] = {
    {ImageFormat::kJpeg, ProbeJpeg, PeekJpeg}, {ImageFormat::kPng, ProbePng, PeekPng},
    {ImageFormat::kWebp, ProbeWebp, PeekWebp}, {ImageFormat::kGif, ProbeGif, PeekGif},
    {ImageFormat::kBmp, ProbeBmp, PeekBmp},    {ImageFormat::kTiff, ProbeTiff, PeekTiff},
#ifdef FOVEA_AVIF
    {ImageFormat::kAvif, ProbeAvif, PeekAvif},  // or HEIF: the probe tells
#endif
};

const Format& FormatOf(const PictureSignature& signature) {
  const auto* format = std::ranges::find_if(kFormats, [&signature](const Format& format) {
    return ImageFormatName(format.format) == signature.format;
  });
  FOVEA_CHECK(format != std::end(kFormats));
  return *format;
}

Match MatchSignature(Bytes encoded, const PictureSignature& signature) {
  // A box's length alone may be any number, so it matches nothing.
  if (signature.magic.empty() && encoded.size() <= signature.second_at) return Match::kNo;
  const Match first = MatchMagic(encoded, 0, signature.magic);
  if (first != Match::kYes || signature.second.empty()) return first;
  return MatchMagic(encoded, signature.second_at, signature.second);
}

absl::StatusOr<ImageInfo> ProbeByMagic(Bytes encoded, const ImageLimits& limits) {
  bool stops_short = false;
  for (const PictureSignature& signature : PictureSignatures()) {
    const Match match = MatchSignature(encoded, signature);
    if (match == Match::kYes) return FormatOf(signature).probe(encoded, limits);
    stops_short |= match == Match::kStopsShort;
  }
  return stops_short ? Truncated() : UnknownKind(encoded);
}

}  // namespace

// From the decoders' own allocations: what decoding holds, or the picture and its upright copy.
int64_t DecodeBytes(const ImageInfo& info, int halvings) {
  int64_t per_pixel = 3;  // the result
  int64_t fixed = kDecoderBytes;
  switch (info.format) {
    case ImageFormat::kJpeg:
      fixed += 2 * info.coefficients;
      // Rows of a few blocks, and of CMYK before it is converted.
      fixed += int64_t{400} * (info.width + 32);
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
    case ImageFormat::kGif:
      break;
    case ImageFormat::kBmp:
      per_pixel += 1;  // colour numbers, unpacked from runs
      break;
    case ImageFormat::kTiff:
      fixed += info.buffer_bytes;
      break;
    case ImageFormat::kAvif:
      fixed += info.buffer_bytes + kAvifDecoderBytes;
      break;
  }
  if (info.orientation != 1) per_pixel = std::max<int64_t>(per_pixel, 6);
  return PaddedPixels(DecodedSide(info.height, halvings), DecodedSide(info.width, halvings)) *
             per_pixel +
         fixed;
}

std::optional<ImageInfo> PeekImage(Bytes beginning) {
  for (const PictureSignature& signature : PictureSignatures()) {
    if (MatchSignature(beginning, signature) == Match::kYes) {
      return FormatOf(signature).peek(beginning);
    }
  }
  return std::nullopt;
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
                     " are accepted (the server's --max-image-pixels), at most ", limits.max_side,
                     " on a side"));
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
