// Turns what belongs to a stored picture as EXIF's orientation, 1 to 8, turns the picture.
#pragma once

#include <opencv2/core.hpp>

namespace fovea::models::training {

// The picture as it is meant to be seen.
cv::Mat Upright(const cv::Mat& stored, int orientation);
// The box that it turns a box of the stored picture into, which is of that size.
cv::Rect2f UprightBox(const cv::Rect2f& box, cv::Size stored, int orientation);

}  // namespace fovea::models::training
