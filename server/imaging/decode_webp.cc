#include <webp/decode.h>

#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/pixel_format.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"
#include "server/imaging/probe_formats.h"

namespace {

// What libwebp may still allocate for the picture that this thread decodes. A lossless file of
// 300 KB can ask for 1.3 GB of prefix code tables.
thread_local int64_t webp_allowance = std::numeric_limits<int64_t>::max();
// It asked for more.
thread_local bool webp_refused = false;

// What is smaller is always granted: libwebp 1.2.4 frees its colour cache, of at most 8 KiB, twice
// where it does not get it.
constexpr uint64_t kGranted = 64 << 10;

bool WithinAllowance(uint64_t count, size_t size) {
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return false;
  if (bytes > kGranted && static_cast<int64_t>(bytes) > webp_allowance) {
    webp_refused = true;
    return false;
  }
  webp_allowance -= static_cast<int64_t>(bytes);
  return true;
}

}  // namespace

// libwebp has no setting for this. It exports the two functions by which it allocates, and calls
// them as any other program's: the executable's come first.
extern "C" {
void* WebPSafeMalloc(uint64_t count, size_t size) {
  return WithinAllowance(count, size) ? std::malloc(count * size) : nullptr;
}
void* WebPSafeCalloc(uint64_t count, size_t size) {
  return WithinAllowance(count, size) ? std::calloc(count, size) : nullptr;
}
}

namespace fovea {
namespace {

// libwebp has no words.
std::string Failure(VP8StatusCode status) {
  if (status == VP8_STATUS_OK) return {};
  return absl::StrCat("libwebp: status ", static_cast<int>(status));
}

struct Target {
  WEBP_CSP_MODE order;
  int channels, width, height;
};

// The whole picture into `pixels`, which holds exactly that.
std::string DecodeInto(Bytes encoded, const ImageInfo& info, const Target& target,
                       uint8_t* pixels) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) return "libwebp has another version than its header";
  config.output.colorspace = target.order;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {.rgba = pixels,
                          .stride = target.channels * target.width,
                          .size = size_t{1} * target.channels * target.width * target.height};
  const int64_t unlimited = std::exchange(
      webp_allowance, info.decode_bytes - static_cast<int64_t>(config.output.u.RGBA.size));
  const VP8StatusCode status =
      WebPDecode(reinterpret_cast<const uint8_t*>(encoded.data()), encoded.size(), &config);
  webp_allowance = unlimited;
  return Failure(status);
}

// A frame that covers a part of the canvas; around it is the background.
std::string DecodeFrame(const WebpFrame& frame, const ImageInfo& info, const Rgb& background,
                        RgbImage& image) {
  const auto rgba =
      std::make_unique_for_overwrite<uint8_t[]>(size_t{4} * frame.width * frame.height);
  std::string failure =
      DecodeInto(frame.image, info, {MODE_RGBA, 4, frame.width, frame.height}, rgba.get());
  if (!failure.empty()) return failure;
  image = RgbImage::Filled(info.height, info.width, background);
  for (int y = 0; y < frame.height; ++y) {
    RgbaOverBackground(
        frame.width, rgba.get() + size_t{4} * y * frame.width, background,
        image.pixels.get() + 3 * (size_t{1} * (frame.top + y) * image.width + frame.left));
  }
  return {};
}

std::string Decode(Bytes encoded, const ImageInfo& info, const Rgb& background, RgbImage& image) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status =
      WebPGetFeatures(reinterpret_cast<const uint8_t*>(encoded.data()), encoded.size(), &features);
  if (status != VP8_STATUS_OK) return Failure(status);
  if (features.width != info.width || features.height != info.height) {
    return "libwebp read another header than the probe";
  }
  if (features.has_animation) {
    const std::optional<WebpFrame> frame = FirstWebpFrame(encoded);
    if (!frame) return "an animation without a frame";
    // As in Pillow: around a frame is nothing, which a file without transparency shows as black.
    return DecodeFrame(*frame, info, features.has_alpha ? background : Rgb{}, image);
  }
  if (!features.has_alpha) {
    image = RgbImage::Allocate(info.height, info.width);
    return DecodeInto(encoded, info, {MODE_RGB, 3, info.width, info.height}, image.pixels.get());
  }
  const auto rgba = std::make_unique_for_overwrite<uint8_t[]>(4 * info.pixels());
  std::string failure =
      DecodeInto(encoded, info, {MODE_RGBA, 4, info.width, info.height}, rgba.get());
  if (!failure.empty()) return failure;
  image = RgbImage::Allocate(info.height, info.width);
  RgbaOverBackground(info.pixels(), rgba.get(), background, image.pixels.get());
  return {};
}

}  // namespace

absl::StatusOr<RgbImage> DecodeWebp(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options) {
  RgbImage image;
  webp_refused = false;
  const absl::Status status =
      RunCodec([&] { return Decode(encoded, info, options.background, image); });
  if (ReasonOf(status) == "image.corrupt" && webp_refused) {
    return ResourceExhausted("image.too_large_to_decode",
                             "the image takes too much memory to decode for one of its size: save "
                             "it again, or convert it to JPEG or PNG");
  }
  FOVEA_RETURN_IF_ERROR(status);
  return image;
}

}  // namespace fovea
