// The inputs that every model has.
#pragma once

#include <string_view>

namespace fovea {

// The three ways to hand over images, by name; a request uses exactly one.
inline constexpr std::string_view kPixelValuesInput =
    "pixel_values";                                              // FP32 [-1,3,H,W], normalised
inline constexpr std::string_view kImageInput = "image";         // BYTES [-1,1] or [-1]: files
inline constexpr std::string_view kImageRgbInput = "image_rgb";  // UINT8 [-1,H,W,3], any size

}  // namespace fovea
