// Pictures from files, of every format that the server reads, and to files.
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

// EXIF's 1 to 8 of a picture that ReadPicture reads. Throws DataError as it does.
int OrientationOf(const std::filesystem::path& file);

// The levels of a PNG as they are stored: uint8 or uint16 [height, width]. A palette's are its
// indices; of three equal channels it is one of them, and opacity does not count. Throws DataError
// as ReadPicture, and where the channels differ.
cv::Mat ReadLevels(const std::filesystem::path& file);

// uint8 of one or three channels (RGB), or uint16 of one. Throws std::runtime_error where the file
// cannot be written.
void WritePng(const std::filesystem::path& file, const cv::Mat& pixels);

}  // namespace fovea::models::training
