#include "server/imaging/drawing/picture_canvas.h"

#include <algorithm>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>

namespace fovea {
namespace {

constexpr int kShift = 4;              // OpenCV's fixed point: lines lie between pixels
constexpr double kFontUnit = 1 / 30.;  // of OpenCV's font, for letters of one pixel's size

cv::Mat MatOf(RgbImage& image) { return {image.height, image.width, CV_8UC3, image.pixels.get()}; }

cv::Scalar ScalarOf(const Rgb& colour) { return {1. * colour[0], 1. * colour[1], 1. * colour[2]}; }

std::string InAscii(const std::string& text) {
  std::string ascii;
  for (const char c : text) {
    if ((c & 0xc0) == 0x80) continue;  // of a character that has begun
    ascii.push_back(c >= 0x20 && c < 0x7f ? c : '?');
  }
  return ascii;
}

}  // namespace

PictureCanvas::PictureCanvas(int width, int height, int scale)
    : scale_(scale), picture_(RgbImage::Allocate(height * scale, width * scale)) {
  std::fill_n(picture_.pixels.get(), picture_.size(), uint8_t{255});
}

void PictureCanvas::Line(const Place& from, const Place& to, double width, const Rgb& colour) {
  cv::Mat picture = MatOf(picture_);
  const auto point = [&](const Place& place) {
    return cv::Point(static_cast<int>(std::lround(place.x * scale_ * (1 << kShift))),
                     static_cast<int>(std::lround(place.y * scale_ * (1 << kShift))));
  };
  const int thickness = std::max(1, static_cast<int>(std::lround(width * scale_)));
  cv::line(picture, point(from), point(to), ScalarOf(colour), thickness, cv::LINE_AA, kShift);
}

void PictureCanvas::Dot(const Place& at, double radius, const Rgb& colour) {
  cv::Mat picture = MatOf(picture_);
  cv::circle(picture,
             {static_cast<int>(std::lround(at.x * scale_ * (1 << kShift))),
              static_cast<int>(std::lround(at.y * scale_ * (1 << kShift)))},
             static_cast<int>(std::lround(radius * scale_ * (1 << kShift))), ScalarOf(colour),
             cv::FILLED, cv::LINE_AA, kShift);
}

void PictureCanvas::Text(const Place& at, Anchor anchor, const std::string& text, double size,
                         const Rgb& colour) {
  cv::Mat picture = MatOf(picture_);
  const std::string ascii = InAscii(text);
  const double font = size * scale_ * kFontUnit;
  int below = 0;
  const int width = cv::getTextSize(ascii, cv::FONT_HERSHEY_SIMPLEX, font, 1, &below).width;
  double x = at.x * scale_;
  if (anchor == Anchor::kMiddle) x -= width / 2.;
  if (anchor == Anchor::kEnd) x -= width;
  cv::putText(picture, ascii,
              {static_cast<int>(std::lround(x)), static_cast<int>(std::lround(at.y * scale_))},
              cv::FONT_HERSHEY_SIMPLEX, font, ScalarOf(colour), 1, cv::LINE_AA);
}

}  // namespace fovea
