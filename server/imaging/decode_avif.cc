#include <avif/avif.h>

#include <cerrno>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/pixel_format.h"
#include "server/imaging/avif_decoder.h"
#include "server/imaging/avif_memory.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"

namespace fovea {
namespace {

std::string Failure(avifResult result) {
  if (result == AVIF_RESULT_OUT_OF_MEMORY) errno = ENOMEM;
  return absl::StrCat("libavif: ", avifResultToString(result));
}

std::string Decode(Bytes encoded, const ImageInfo& info, const Rgb& background, RgbImage& image) {
  // A picture takes one frame, or two with film grain; a layered one, whose last layer is shown, up
  // to four; transparency takes as many again. Files with more have frames that are never shown.
  constexpr int64_t kMostFrames = 8;
  const bool has_alpha = info.components == 4;
  const int64_t rgba_bytes = has_alpha ? 4 * info.pixels() : 0;  // not libavif's
  const AvifMemory memory(info.buffer_bytes - rgba_bytes,
                          kMostFrames * (has_alpha ? 2 : 1) * info.pixels());
  const AvifDecoder decoder = OpenAvif(encoded, info.pixels());
  avifResult result = avifDecoderParse(decoder.get());
  if (result == AVIF_RESULT_OK) result = avifDecoderNextImage(decoder.get());
  if (result != AVIF_RESULT_OK) return Failure(result);
  const avifImage& decoded = *decoder->image;
  if (static_cast<int>(decoded.width) != info.width ||
      static_cast<int>(decoded.height) != info.height ||
      static_cast<int>(decoded.depth) != info.bit_depth) {
    return "libavif read another size or depth than the probe";
  }
  const bool transparent = decoder->alphaPresent;
  avifRGBImage rgb;
  avifRGBImageSetDefaults(&rgb, &decoded);
  rgb.depth = 8;
  rgb.format = transparent ? AVIF_RGB_FORMAT_RGBA : AVIF_RGB_FORMAT_RGB;
  rgb.ignoreAlpha = !transparent;
  const int channels = transparent ? 4 : 3;
  image = RgbImage::Allocate(info.height, info.width);
  std::unique_ptr<uint8_t[]> rgba;
  if (transparent) rgba = std::make_unique_for_overwrite<uint8_t[]>(4 * info.pixels());
  rgb.pixels = transparent ? rgba.get() : image.pixels.get();
  rgb.rowBytes = static_cast<uint32_t>(channels * info.width);
  result = avifImageYUVToRGB(&decoded, &rgb);
  if (result != AVIF_RESULT_OK) return Failure(result);
  if (transparent) RgbaOverBackground(info.pixels(), rgba.get(), background, image.pixels.get());
  return {};
}

}  // namespace

absl::StatusOr<RgbImage> DecodeAvif(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options) {
  RgbImage image;
  FOVEA_RETURN_IF_ERROR(RunCodec([&]() -> std::string {
    try {
      return Decode(encoded, info, options.background, image);
    } catch (const AvifMemoryExceeded& error) {
      return error.what();
    }
  }));
  return image;
}

}  // namespace fovea
