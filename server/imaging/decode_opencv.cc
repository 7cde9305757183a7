// PNG and WebP by OpenCV's imgcodecs.
#include <algorithm>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <optional>
#include <string>
#include <vector>

#include "server/core/check.h"
#include "server/imaging/codec_status.h"
#include "server/imaging/decode_formats.h"
#include "server/imaging/pixel_format.h"
#include "server/imaging/probe_formats.h"

namespace fovea {
namespace {

// The samples as the file has them: 8 or 16 bits, grey, BGR or BGRA (grey with alpha comes as BGRA,
// a palette as BGR). Not of the size that the probe read where the library decoded nothing.
cv::Mat DecodeSamples(std::span<const std::byte> encoded) {
  const cv::Mat bytes(1, static_cast<int>(encoded.size()), CV_8UC1,
                      const_cast<std::byte*>(encoded.data()));
  return cv::imdecode(bytes, cv::IMREAD_UNCHANGED);
}

cv::Mat RoundedTo8Bits(const cv::Mat& samples) {
  cv::Mat rounded(samples.rows, samples.cols, CV_MAKETYPE(CV_8U, samples.channels()));
  const size_t count = samples.total() * samples.channels();
  To8Bits({samples.ptr<uint16_t>(), count}, {rounded.ptr<uint8_t>(), count});
  return rounded;
}

// `gray_key`: at the file's own depth, for grey samples only.
std::string ToRgb(const cv::Mat& samples, const ImageInfo& info, std::optional<uint16_t> gray_key,
                  const Rgb& background, RgbImage& image) {
  if (samples.rows != info.height || samples.cols != info.width) return "nothing was decoded";
  FOVEA_CHECK(samples.isContinuous() && (samples.depth() == CV_8U || samples.depth() == CV_16U));
  const bool wide = samples.depth() == CV_16U;
  const cv::Mat eight = wide ? RoundedTo8Bits(samples) : samples;
  image = RgbImage::Allocate(info.height, info.width);
  const size_t pixels = eight.total();
  const uint8_t* from = eight.ptr<uint8_t>();
  uint8_t* to = image.pixels.get();
  switch (eight.channels()) {
    case 1:
      GrayToRgb(pixels, from, to);
      if (!gray_key) break;
      if (wide) {
        ReplaceKey(pixels, samples.ptr<uint16_t>(), *gray_key, background, to);
      } else {
        // The library has scaled smaller samples to the full range, and so the key.
        const int largest = (1 << info.bit_depth) - 1;
        const auto key = static_cast<uint8_t>((*gray_key & largest) * 255 / largest);
        ReplaceKey(pixels, from, key, background, to);
      }
      break;
    case 3:
      BgrToRgb(pixels, from, to);
      break;
    case 4:
      BgraOverBackground(pixels, from, background, to);
      break;
    default:
      return "an unknown number of channels";
  }
  return {};
}

// What a PNG decoder must see, and nothing else.
struct PngEssentials {
  std::vector<std::byte> file;
  std::optional<uint16_t> gray_key;
};

// Text, profiles, gamma and the like stay out of the library: they cannot make it fail, allocate or
// write to the log.
absl::StatusOr<PngEssentials> Essentials(Bytes encoded, const ImageInfo& info) {
  PngEssentials essentials;
  const auto append = [&](Bytes bytes) {
    essentials.file.insert(essentials.file.end(), bytes.begin(), bytes.end());
  };
  essentials.file.reserve(encoded.size());
  append(encoded.first(kPngSignature.size()));
  const auto visit = [&](const PngChunk& chunk) -> absl::Status {
    const bool critical = (chunk.type[0] & 0x20) == 0;
    if (critical) {
      append(chunk.whole);
    } else if (chunk.type == "tRNS") {
      // libpng ignores a damaged one; the picture would silently be another.
      if (!PngChecksumMatches(chunk)) return Corrupt("its transparency");
      if (info.components != 1) {
        append(chunk.whole);
      } else if (chunk.data.size() == 2) {  // OpenCV does not apply it
        essentials.gray_key = U16Big(chunk.data, 0);
      }
    }
    return absl::OkStatus();
  };
  FOVEA_RETURN_IF_ERROR(WalkPng(encoded, visit).status());
  return essentials;
}

}  // namespace

absl::StatusOr<RgbImage> DecodePng(Bytes encoded, const ImageInfo& info,
                                   const DecodeOptions& options) {
  RgbImage image;
  absl::Status walked;
  FOVEA_RETURN_IF_ERROR(RunCodec([&]() -> std::string {
    absl::StatusOr<PngEssentials> essentials = Essentials(encoded, info);
    walked = essentials.status();
    if (!walked.ok()) return {};
    return ToRgb(DecodeSamples(essentials->file), info, essentials->gray_key, options.background,
                 image);
  }));
  FOVEA_RETURN_IF_ERROR(walked);
  return image;
}

absl::StatusOr<RgbImage> DecodeWebp(Bytes encoded, const ImageInfo& info,
                                    const DecodeOptions& options) {
  // OpenCV reads so many bytes before it looks at the size that the file declares.
  constexpr size_t kFewestBytes = 32;
  std::vector<std::byte> padded;
  if (encoded.size() < kFewestBytes) {
    padded.assign(kFewestBytes, std::byte{0});
    std::ranges::copy(encoded, padded.begin());
    encoded = padded;
  }
  RgbImage image;
  FOVEA_RETURN_IF_ERROR(RunCodec([&] {
    return ToRgb(DecodeSamples(encoded), info, std::nullopt, options.background, image);
  }));
  return image;
}

void WarmUpDecoders() { (void)cv::haveImageWriter(".png"); }

}  // namespace fovea
