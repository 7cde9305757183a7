#include "server/imaging/drawing/line_charts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

#include "server/imaging/drawing/opencv_errors.h"

namespace fovea {
namespace {

// Of one chart, in pixels.
constexpr int kWidth = 480, kHeight = 300;
constexpr int kLeft = 64, kRight = 18, kTop = 40, kBottom = 44;
constexpr int kTicks = 4;  // steps along an axis, about
constexpr int kShift = 4;  // OpenCV's fixed point: lines lie between pixels
constexpr double kFont = 0.42, kHeadingFont = 0.55;
constexpr int kHeading = 34;  // height of the heading

const cv::Scalar kInk(60, 60, 60), kFaint(225, 225, 225), kPaper(255, 255, 255);
// Apart for most colour-blind readers too (Okabe and Ito 2008), the calm ones first.
const std::array<cv::Scalar, 6> kColours = {cv::Scalar(0, 114, 178),  cv::Scalar(213, 94, 0),
                                            cv::Scalar(0, 158, 115),  cv::Scalar(204, 121, 167),
                                            cv::Scalar(86, 180, 233), cv::Scalar(230, 159, 0)};
constexpr size_t kMostNamed = 6;  // lines beyond these repeat colours, and a legend would not help

bool IsShown(const std::optional<double>& value) { return value && std::isfinite(*value); }

// 1, 2 or 5 times a power of ten.
double RoundStep(double range) {
  const double rough = range / kTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (times * power >= rough) return times * power;
  }
  return 10 * power;
}

std::string TextOf(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", std::abs(value) < 1e-12 ? 0 : value);
  return text;
}

std::string InAscii(const std::string& text) {
  std::string ascii;
  for (const char c : text) ascii.push_back(c >= 0x20 && c < 0x7f ? c : '?');
  return ascii;
}

enum class Align { kLeft, kMiddle, kRight };

void Write(cv::Mat& picture, const std::string& text, cv::Point at, Align align,
           const cv::Scalar& colour, double font = kFont) {
  const std::string ascii = InAscii(text);
  int below = 0;
  const int width = cv::getTextSize(ascii, cv::FONT_HERSHEY_SIMPLEX, font, 1, &below).width;
  if (align == Align::kMiddle) at.x -= width / 2;
  if (align == Align::kRight) at.x -= width;
  cv::putText(picture, ascii, at, cv::FONT_HERSHEY_SIMPLEX, font, colour, 1, cv::LINE_AA);
}

// The field inside of a chart's axes, and the numbers that it spans.
struct Field {
  cv::Rect place;
  double least = 0, largest = 1;
  size_t points = 1;

  double X(size_t i) const {
    const double share =
        points > 1 ? static_cast<double>(i) / static_cast<double>(points - 1) : 0.5;
    return place.x + share * place.width;
  }
  double Y(double value) const {
    return place.y + place.height * (1 - (value - least) / (largest - least));
  }
};

Field FieldOf(const LineChart& chart, const cv::Point& corner) {
  Field field{.place = {corner.x + kLeft, corner.y + kTop, kWidth - kLeft - kRight,
                        kHeight - kTop - kBottom}};
  double least = INFINITY, largest = -INFINITY;
  for (const LineChart::Line& line : chart.lines) {
    field.points = std::max(field.points, line.values.size());
    for (const auto& value : line.values) {
      if (!IsShown(value)) continue;
      least = std::min(least, *value);
      largest = std::max(largest, *value);
    }
  }
  if (!(least <= largest)) return field;  // nothing to show
  // Starts the axis at zero if the lines still get a fifth of the height.
  if (least > 0 && least < 0.8 * largest) least = 0;
  if (largest - least < 1e-9 * std::max(1.0, std::abs(largest))) {
    least -= 0.5;
    largest += 0.5;
  }
  const double step = RoundStep(largest - least);
  field.least = step * std::floor(least / step);
  field.largest = step * std::ceil(largest / step);
  return field;
}

void DrawAxes(cv::Mat& picture, const Field& field, const std::string& axis) {
  const cv::Rect& place = field.place;
  const double step = RoundStep(field.largest - field.least);
  for (double at = field.least; at <= field.largest + step / 2; at += step) {
    const int y = static_cast<int>(std::lround(field.Y(at)));
    cv::line(picture, {place.x, y}, {place.x + place.width, y}, kFaint, 1);
    Write(picture, TextOf(at), {place.x - 8, y + 5}, Align::kRight, kInk);
  }
  const size_t every = std::max<size_t>(1, (field.points + 11) / 12);
  for (size_t i = 0; i < field.points; i += every) {
    const int x = static_cast<int>(std::lround(field.X(i)));
    Write(picture, std::to_string(i), {x, place.y + place.height + 16}, Align::kMiddle, kInk);
  }
  Write(picture, axis, {place.x + place.width / 2, place.y + place.height + 33}, Align::kMiddle,
        kInk);
}

void DrawLine(cv::Mat& picture, const Field& field, const LineChart::Line& line,
              const cv::Scalar& colour) {
  const auto point = [&](size_t i) {
    return cv::Point(static_cast<int>(std::lround(field.X(i) * (1 << kShift))),
                     static_cast<int>(std::lround(field.Y(*line.values[i]) * (1 << kShift))));
  };
  for (size_t i = 0; i < line.values.size(); ++i) {
    if (!IsShown(line.values[i])) continue;
    if (i > 0 && IsShown(line.values[i - 1])) {
      cv::line(picture, point(i - 1), point(i), colour, 2, cv::LINE_AA, kShift);
    }
    cv::circle(picture, point(i), 3 << kShift, colour, cv::FILLED, cv::LINE_AA, kShift);
  }
}

void DrawChart(cv::Mat& picture, const LineChart& chart, const std::string& axis,
               const cv::Point& corner) {
  const Field field = FieldOf(chart, corner);
  Write(picture, chart.title, {corner.x + kLeft, corner.y + 24}, Align::kLeft, kInk, 0.5);
  DrawAxes(picture, field, axis);
  for (size_t i = 0; i < chart.lines.size(); ++i) {
    DrawLine(picture, field, chart.lines[i], kColours[i % kColours.size()]);
  }
  if (chart.lines.size() < 2 || chart.lines.size() > kMostNamed) return;
  // From the right, beside the title.
  int x = corner.x + kWidth - kRight;
  for (size_t i = chart.lines.size(); i-- > 0;) {
    const std::string& name = chart.lines[i].name;
    if (name.empty()) continue;
    Write(picture, name, {x, corner.y + 24}, Align::kRight, kColours[i % kColours.size()]);
    int below = 0;
    x -= cv::getTextSize(InAscii(name), cv::FONT_HERSHEY_SIMPLEX, kFont, 1, &below).width + 10;
  }
}

}  // namespace

RgbImage DrawLineCharts(const std::vector<LineChart>& charts, const std::string& axis,
                        const std::string& heading) try {
  const int top = heading.empty() ? 0 : kHeading;
  const int rows = std::max<int>(1, (static_cast<int>(charts.size()) + 1) / 2);
  RgbImage drawn = RgbImage::Allocate(top + rows * kHeight, 2 * kWidth);
  cv::Mat picture(drawn.height, drawn.width, CV_8UC3, drawn.pixels.get());
  picture.setTo(kPaper);
  Write(picture, heading, {kLeft, top - 9}, Align::kLeft, kInk, kHeadingFont);
  for (size_t i = 0; i < charts.size(); ++i) {
    const auto at = static_cast<int>(i);
    DrawChart(picture, charts[i], axis, {at % 2 * kWidth, top + at / 2 * kHeight});
  }
  return drawn;
} catch (const cv::Exception& error) {
  ThrowAsStandard(error);
}

}  // namespace fovea
