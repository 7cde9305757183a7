// How COCO writes masks down: polygons, and run lengths by columns.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::models::training {

// Sets to 255 the pixels whose middle lies in the polygon (x0, y0, x1, y1, ...), by the even-odd
// rule; `mask` is uint8, the part of the picture that begins at `corner`, and the polygon may reach
// beyond it. pycocotools rounds the outline to
// fifths of a pixel first: the two differ in pixels that the outline crosses, and in no others.
void FillPolygon(std::span<const float> polygon, cv::Point corner, cv::Mat& mask);

// Of COCO's compressed text. Throws DataError where it is none.
std::vector<uint32_t> RunLengthsOf(std::string_view text);
std::string TextOf(std::span<const uint32_t> run_lengths);

// Column by column, pixels that are not set first. The mask has 255 where they are set. Throws
// DataError unless the lengths fill it.
cv::Mat MaskOf(std::span<const uint32_t> run_lengths, cv::Size size);
std::vector<uint32_t> RunLengthsOf(const cv::Mat& mask);

}  // namespace fovea::models::training
