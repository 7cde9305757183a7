#include "model_zoo/training/data/generated/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace fovea::models::training {
namespace {

using Contour = std::vector<cv::Point2f>;

constexpr int kSegments = 48;  // of an arc, however long

// Angles are in turns, from up, clockwise.
cv::Point2f OnCircle(double turn, double radius) {
  const double angle = 2.0 * std::numbers::pi * turn;
  return {static_cast<float>(radius * std::sin(angle)),
          static_cast<float>(-radius * std::cos(angle))};
}

double TurnOf(double x, double y) { return std::atan2(x, -y) / (2.0 * std::numbers::pi); }

void AppendArc(Contour& contour, cv::Point2f centre, double radius, double from, double to) {
  for (int i = 0; i <= kSegments; ++i) {
    contour.push_back(centre + OnCircle(from + (to - from) * i / kSegments, radius));
  }
}

Contour Circle(double radius) {
  Contour contour;
  AppendArc(contour, {0, 0}, radius, 0, 1);
  return contour;
}

// A corner or, half a side turned, a side at the top.
Contour Polygon(int corners, double turn) {
  Contour contour;
  for (int i = 0; i < corners; ++i) contour.push_back(OnCircle(turn + double(i) / corners, 1.0));
  return contour;
}

Contour Star() {
  Contour contour;
  for (int i = 0; i < 10; ++i) contour.push_back(OnCircle(i / 10.0, i % 2 == 0 ? 1.0 : 0.42));
  return contour;
}

Contour Cross() {
  constexpr float a = 0.29f, b = 0.95f;  // half the width of an arm, its length
  return {{-a, -b}, {a, -b}, {a, -a}, {b, -a}, {b, a},   {a, a},
          {a, b},   {-a, b}, {-a, a}, {-b, a}, {-b, -a}, {-a, -a}};
}

// A disc less a smaller one, moved to the right: the outer arc from tip to tip and the inner one
// back.
Contour Crescent() {
  constexpr double shift = 0.42, radius = 0.80;
  const double x = (1.0 + shift * shift - radius * radius) / (2.0 * shift);  // of both tips
  const double y = std::sqrt(1.0 - x * x);                                   // of the lower one
  const double outer = TurnOf(x, y), inner = TurnOf(x - shift, y);
  Contour contour;
  AppendArc(contour, {0, 0}, 1.0, outer, 1.5 - outer);
  AppendArc(contour, {shift, 0}, radius, 1.5 - inner, inner);
  return contour;
}

Contour Heart() {
  Contour contour;
  for (int i = 0; i < 2 * kSegments; ++i) {
    const double t = std::numbers::pi * i / kSegments;
    const double x = 16 * std::pow(std::sin(t), 3);
    const double y = 13 * std::cos(t) - 5 * std::cos(2 * t) - 2 * std::cos(3 * t) - std::cos(4 * t);
    contour.push_back({static_cast<float>(x), static_cast<float>(-y - 2.5)});
  }
  return contour;
}

Contour Arrow() {
  return {{0, -1},         {0.8f, -0.1f},   {0.27f, -0.1f}, {0.27f, 0.95f},
          {-0.27f, 0.95f}, {-0.27f, -0.1f}, {-0.8f, -0.1f}};
}

Contour Bolt() {
  return {{-0.1f, -1}, {0.5f, -1},     {0.15f, -0.25f}, {0.6f, -0.25f},
          {-0.4f, 1},  {-0.1f, 0.15f}, {-0.55f, 0.15f}};
}

Contours Raw(Shape shape) {
  switch (shape) {
    case Shape::kCircle:
      return {Circle(1.0)};
    case Shape::kTriangle:
      return {Polygon(3, 0)};
    case Shape::kSquare:
      return {Polygon(4, 0.125)};
    case Shape::kStar:
      return {Star()};
    case Shape::kCross:
      return {Cross()};
    case Shape::kRing:
      return {Circle(1.0), Circle(0.55)};
    case Shape::kCrescent:
      return {Crescent()};
    case Shape::kHeart:
      return {Heart()};
    case Shape::kArrow:
      return {Arrow()};
    case Shape::kBolt:
      return {Bolt()};
  }
  return {};
}

// Scaled so that its farthest corner lies on the unit circle.
Contours Normalised(Contours contours) {
  float farthest = 0;
  for (const Contour& contour : contours) {
    for (cv::Point2f p : contour) farthest = std::max(farthest, p.x * p.x + p.y * p.y);
  }
  const float scale = 1.0f / std::sqrt(farthest);
  for (Contour& contour : contours) {
    for (cv::Point2f& p : contour) p *= scale;
  }
  return contours;
}

}  // namespace

std::string_view Name(Shape shape) {
  constexpr std::array<std::string_view, kNumShapes> kNames = {
      "circle", "triangle", "square", "star",  "cross",
      "ring",   "crescent", "heart",  "arrow", "bolt"};
  return kNames[static_cast<size_t>(shape)];
}

const Contours& Outline(Shape shape) {
  static const std::array<Contours, kNumShapes> outlines = [] {
    std::array<Contours, kNumShapes> all;
    for (int i = 0; i < kNumShapes; ++i) all[i] = Normalised(Raw(static_cast<Shape>(i)));
    return all;
  }();
  return outlines[static_cast<size_t>(shape)];
}

Contours Bar(cv::Point2f from, cv::Point2f to, float thickness) {
  const cv::Point2f along = to - from;
  const float length = std::sqrt(along.x * along.x + along.y * along.y) + 1e-6f;
  const cv::Point2f across = cv::Point2f(-along.y, along.x) * (0.5f * thickness / length);
  return {{from + across, to + across, to - across, from - across}};
}

Contours Arc(cv::Point2f centre, float radius, float from_turn, float to_turn, float thickness) {
  Contour contour;
  AppendArc(contour, centre, radius + 0.5f * thickness, from_turn, to_turn);
  AppendArc(contour, centre, radius - 0.5f * thickness, to_turn, from_turn);
  return {contour};
}

}  // namespace fovea::models::training
