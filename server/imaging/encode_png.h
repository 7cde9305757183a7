// Pixels to a PNG file's bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "server/core/image_size.h"
#include "server/imaging/image.h"

namespace fovea {

// UNAVAILABLE server.out_of_memory, INTERNAL image.codec_failed; here and below.
absl::StatusOr<std::string> EncodePng(const RgbImage& image);

// Grey levels [size.height, size.width], of 8 or of 16 bits.
absl::StatusOr<std::string> EncodeGreyPng(std::span<const uint8_t> levels, const ImageSize& size);
absl::StatusOr<std::string> EncodeGreyPng(std::span<const uint16_t> levels, const ImageSize& size);

}  // namespace fovea
