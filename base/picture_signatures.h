// How the files of pictures that are read begin, and how their names end.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace fovea {

// The first bytes of a format's files: `magic`, and `second` at `second_at`; either may be empty. A
// format may have several.
struct PictureSignature {
  std::string_view format;  // "JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF" or "AVIF"
  std::string_view magic;
  size_t second_at = 0;
  std::string_view second = {};
  // Whether they tell a picture from any other file. Two letters do not, nor does what HEIF shares.
  bool sure = true;
};

// Of every format that this build reads.
std::span<const PictureSignature> PictureSignatures();

// The endings of their names in small letters, with the dot.
std::span<const std::string_view> PictureExtensions();

}  // namespace fovea
