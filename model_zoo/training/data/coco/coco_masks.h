// How COCO writes masks down: polygons, and run lengths by columns.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>
#include <span>
#include <string>

namespace fovea::models::training {

// Sets to 255 the pixels whose middle lies in the polygon (x0, y0, x1, y1, ...), by the even-odd
// rule; `mask` is uint8, the part of the picture that begins at `corner`, and the polygon may reach
// beyond it. pycocotools rounds the outline to
// fifths of a pixel first: the two differ in pixels that the outline crosses, and in no others.
void FillPolygon(std::span<const float> polygon, cv::Point corner, cv::Mat& mask);

// COCO's run lengths (base/run_lengths.h), which fill a picture of that size. The smallest part of
// it that holds all pixels of the mask; empty where there is none.
cv::Rect AreaOf(std::span<const int64_t> run_lengths, cv::Size picture);
// A part of the mask: uint8, 255 where it is set.
cv::Mat MaskOf(std::span<const int64_t> run_lengths, cv::Size picture, cv::Rect part);

// As compressed text.
std::string RunLengthsOf(const cv::Mat& mask);

}  // namespace fovea::models::training
