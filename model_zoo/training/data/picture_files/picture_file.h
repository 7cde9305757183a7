// Pictures from files and to files: JPEG, PNG and WebP, upright, bounded.
#pragma once

#include <filesystem>
#include <opencv2/core.hpp>
#include <string>

namespace fovea::models::training {

// uint8 RGB [height, width, 3], the same bytes as the server decodes (server/imaging/decode.h):
// upright by EXIF's orientation, transparency over white, 16 bits rounded to 8, grey as three equal
// channels, profiles and gamma ignored. Throws DataError, naming the file, where it cannot be
// opened, is none of the formats, is damaged, or is larger than what the server takes
// (base/limits.h).
cv::Mat ReadPicture(const std::filesystem::path& file);

// The levels of a PNG of one channel as they are stored: uint8 or uint16 [height, width]. A
// palette's are its indices. Throws DataError as ReadPicture, and where there is more than one
// channel.
cv::Mat ReadLevels(const std::filesystem::path& file);

// uint8 of one or three channels (RGB), or uint16 of one. Throws std::runtime_error where the file
// cannot be written.
void WritePng(const std::filesystem::path& file, const cv::Mat& pixels);

}  // namespace fovea::models::training
