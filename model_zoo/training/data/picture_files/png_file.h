// libpng, in OpenCV's matrices. Used through picture_file.h.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <span>
#include <string>

namespace fovea::models::training {

enum class PngForm {
  kColour,  // uint8, three channels or, where something is transparent, four
  kLevels,  // as stored: uint8 or uint16, one channel
};

struct DecodedPng {
  std::string failure;  // libpng's words, or ours; empty: all is well
  cv::Mat pixels;
  int orientation = 1;  // EXIF's
};

// Of at most so many pixels, none of whose sides is longer than so much.
DecodedPng DecodePng(std::span<const uint8_t> file, PngForm form, int64_t max_pixels, int max_side);

// What went wrong; empty where nothing did.
std::string EncodePng(const std::string& file, const cv::Mat& pixels);

}  // namespace fovea::models::training
