#include "server/imaging/decode.h"

#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"
#include "server/imaging/orient.h"

namespace fovea {
namespace {

absl::StatusOr<RgbImage> DecodeStored(Bytes encoded, const ImageInfo& info,
                                      const DecodeOptions& options) {
  switch (info.format) {
    case ImageFormat::kJpeg:
      return DecodeJpeg(encoded, info, options);
    case ImageFormat::kPng:
      return DecodePng(encoded, info, options);
    case ImageFormat::kWebp:
      return DecodeWebp(encoded, info, options);
    case ImageFormat::kGif:
      return DecodeGif(encoded, info, options);
    case ImageFormat::kBmp:
      return DecodeBmp(encoded, info, options);
    case ImageFormat::kTiff:
      return DecodeTiff(encoded, info, options);
    case ImageFormat::kAvif:
#ifdef FOVEA_AVIF
      return DecodeAvif(encoded, info, options);
#else
      break;
#endif
  }
  return Internal("image.codec_failed", "the image could not be decoded");
}

}  // namespace

absl::StatusOr<RgbImage> DecodeImage(Bytes encoded, const ImageInfo& info,
                                     const DecodeOptions& options) {
  // Nothing after the image's end reaches a library.
  FOVEA_ASSIGN_OR_RETURN(RgbImage stored,
                         DecodeStored(encoded.first(info.encoded_bytes), info, options));
  if (info.orientation == 1) return stored;
  RgbImage upright;
  FOVEA_RETURN_IF_ERROR(RunCodec([&]() -> std::string {
    upright = Upright(stored, info.orientation);
    return {};
  }));
  return upright;
}

}  // namespace fovea
