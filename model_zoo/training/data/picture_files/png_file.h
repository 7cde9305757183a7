// libpng, in OpenCV's matrices. Used through picture_file.h.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <span>
#include <string>

namespace fovea::models::training {

struct DecodedPng {
  std::string failure;  // libpng's words, or ours; empty: all is well
  cv::Mat pixels;
};

// The levels of every channel as they are stored, uint8 or uint16; of a palette its indices. At
// most so many pixels, none of whose sides is longer than so much.
DecodedPng DecodeLevelsPng(std::span<const uint8_t> file, int64_t max_pixels, int max_side);

// What went wrong; empty where nothing did.
std::string EncodePng(const std::string& file, const cv::Mat& pixels);

}  // namespace fovea::models::training
