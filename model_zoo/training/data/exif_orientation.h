// How the camera was held, as JPEG, PNG and WebP files say it.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <span>

namespace fovea::models::training {

// EXIF's 1 to 8 of an encoded picture; 1 where it says none or what makes no sense. A walk over the
// headers: never past the end, whatever the bytes.
int JpegOrientation(std::span<const uint8_t> file);
int WebpOrientation(std::span<const uint8_t> file);
// Of EXIF's data itself, a TIFF header and its first directory (Exif 2.3, section 4.6).
int TiffOrientation(std::span<const uint8_t> tiff);

// The picture as it is meant to be seen.
cv::Mat Upright(const cv::Mat& stored, int orientation);

}  // namespace fovea::models::training
