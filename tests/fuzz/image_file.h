// One image file, probed and decoded.
#pragma once

#include <string>
#include <string_view>

#include "server/imaging/decode.h"
#include "server/imaging/probe.h"
#include "tests/fuzz/fuzz_target.h"

namespace fovea {

// `magic`: the file begins with it, whatever its first bytes were, so that no run is of another
// format.
inline void ProbeAndDecode(std::string_view file, std::string_view magic) {
  std::string encoded(file);
  encoded.replace(0, std::min(encoded.size(), magic.size()), magic);
  const Bytes bytes = std::as_bytes(std::span(encoded));
  constexpr ImageLimits kLimits = {.max_encoded_bytes = 1 << 20, .max_pixels = 1 << 16};
  const std::optional<ImageInfo> peeked = PeekImage(bytes);
  const absl::StatusOr<ImageInfo> info = ProbeImage(bytes, kLimits);
  if (!info.ok()) return;
  FOVEA_CHECK(info->width > 0 && info->height > 0 && info->pixels() <= kLimits.max_pixels);
  FOVEA_CHECK(info->orientation >= 1 && info->orientation <= 8);
  FOVEA_CHECK(info->encoded_bytes <= static_cast<int64_t>(encoded.size()));
  if (peeked) FOVEA_CHECK(peeked->width == info->width && peeked->height == info->height);
  const absl::StatusOr<RgbImage> image = DecodeImage(bytes, *info);
  if (!image.ok()) return;
  const bool turned = info->orientation >= 5;
  FOVEA_CHECK(image->width == (turned ? info->height : info->width));
  FOVEA_CHECK(image->height == (turned ? info->width : info->height));
  // Every pixel was written (MemorySanitizer would see it) and lies inside.
  uint32_t sum = 0;
  for (const uint8_t sample : image->bytes()) sum += sample;
  [[maybe_unused]] volatile const uint32_t used = sum;
}

}  // namespace fovea
