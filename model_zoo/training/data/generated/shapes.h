// The classes of the generated data set: ten outlines.
#pragma once

#include <opencv2/core/types.hpp>
#include <string_view>
#include <vector>

namespace fovea::models::training {

enum class Shape {
  kCircle,
  kTriangle,
  kSquare,
  kStar,
  kCross,
  kRing,
  kCrescent,
  kHeart,
  kArrow,
  kBolt,
};
inline constexpr int kNumShapes = 10;

// Lower case, as in labels.txt.
std::string_view Name(Shape shape);

// One or more closed polygons, filled by the even-odd rule (a ring is two circles).
using Contours = std::vector<std::vector<cv::Point2f>>;

// The shape around the origin, within the unit circle and nearly filling it; y points down.
const Contours& Outline(Shape shape);

// What clutter is made of. Thickness and lengths as fractions of the picture's shorter side, as all
// coordinates.
Contours Bar(cv::Point2f from, cv::Point2f to, float thickness);
Contours Arc(cv::Point2f centre, float radius, float from_turn, float to_turn, float thickness);

}  // namespace fovea::models::training
