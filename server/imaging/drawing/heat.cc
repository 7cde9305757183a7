#include "server/imaging/drawing/heat.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <vector>

#include "base/check.h"
#include "server/imaging/drawing/opencv_errors.h"

namespace fovea {
namespace {

// Of the colour over a pixel, where the number is the least and the largest: what matters little
// stays readable as a picture.
constexpr double kLeastShare = 0.4, kLargestShare = 0.7;
constexpr double kUnseenLight = 0.4;  // of a pixel that the model did not see

std::array<Rgb, 256> Viridis() {
  cv::Mat ramp(1, 256, CV_8U), colours;
  for (int i = 0; i < 256; ++i) ramp.at<uint8_t>(0, i) = static_cast<uint8_t>(i);
  cv::applyColorMap(ramp, colours, cv::COLORMAP_VIRIDIS);
  std::array<Rgb, 256> table;
  for (int i = 0; i < 256; ++i) {
    const auto bgr = colours.at<cv::Vec3b>(0, i);
    table[i] = {bgr[2], bgr[1], bgr[0]};
  }
  return table;
}

// A place between two of the map's.
struct Between {
  bool seen = false;
  int low = 0, high = 0;
  double of_high = 0;
};

// Of each of `pixels` pixels of a side: where `place(middle)` lies among `places`, which the side
// of `input` pixels has; seen where it lies within the window.
template <typename Place>
std::vector<Between> Along(int pixels, int places, int64_t input, int64_t window, Place place) {
  std::vector<Between> along(pixels);
  for (int i = 0; i < pixels; ++i) {
    const double at = place(i + 0.5);
    along[i].seen = at >= 0 && at <= static_cast<double>(window);
    const double middle = at * places / static_cast<double>(input) - 0.5;
    const double within = std::clamp(middle, 0.0, places - 1.0);
    along[i].low = static_cast<int>(within);
    along[i].high = std::min(along[i].low + 1, places - 1);
    along[i].of_high = within - along[i].low;
  }
  return along;
}

// The map's numbers in [0, 1].
std::vector<double> Scaled(const HeatMap& heat) {
  double least = INFINITY, largest = -INFINITY;
  for (const float value : heat.values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, double{value});
    largest = std::max(largest, double{value});
  }
  std::vector<double> scaled;
  for (const float value : heat.values) {
    const bool shown = std::isfinite(value) && largest > least;
    scaled.push_back(shown ? (double{value} - least) / (largest - least) : 0);
  }
  return scaled;
}

// Its lightness as ITU-R BT.601 weighs it.
double Grey(const uint8_t* pixel) { return 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]; }

uint8_t Level(double level) {
  return static_cast<uint8_t>(std::lround(std::clamp(level, 0.0, 255.0)));
}

}  // namespace

RgbImage DrawHeat(const RgbImage& image, const ImageTransform& seen, const HeatMap& heat,
                  HeatForm form) try {
  FOVEA_CHECK(heat.rows > 0 && heat.columns > 0 &&
              heat.values.size() == static_cast<size_t>(heat.rows) * heat.columns);
  const std::array<Rgb, 256> viridis = Viridis();
  const std::vector<double> numbers = Scaled(heat);
  const std::vector<Between> rows = Along(image.height, heat.rows, seen.input_height, seen.height,
                                          [&](double y) { return seen.InputY(y); });
  const std::vector<Between> columns = Along(image.width, heat.columns, seen.input_width,
                                             seen.width, [&](double x) { return seen.InputX(x); });
  const bool overlay = form == HeatForm::kOverlay;
  RgbImage drawn = RgbImage::Allocate(image.height, image.width);
  for (int y = 0; y < image.height; ++y) {
    const Between& row = rows[y];
    const double* const low = numbers.data() + static_cast<ptrdiff_t>(row.low) * heat.columns;
    const double* const high = numbers.data() + static_cast<ptrdiff_t>(row.high) * heat.columns;
    for (int x = 0; x < image.width; ++x) {
      const size_t at = 3 * (static_cast<size_t>(y) * image.width + x);
      const double grey = overlay ? Grey(image.pixels.get() + at) : 0;
      uint8_t* const pixel = drawn.pixels.get() + at;
      const Between& column = columns[x];
      if (!row.seen || !column.seen) {
        std::fill_n(pixel, 3, Level(kUnseenLight * grey));
        continue;
      }
      const auto across = [&](const double* line) {
        return line[column.low] + column.of_high * (line[column.high] - line[column.low]);
      };
      const double number = across(low) + row.of_high * (across(high) - across(low));
      const Rgb& colour = viridis[Level(255 * number)];
      const double share = overlay ? kLeastShare + (kLargestShare - kLeastShare) * number : 1;
      for (int c = 0; c < 3; ++c) pixel[c] = Level(share * colour[c] + (1 - share) * grey);
    }
  }
  return drawn;
} catch (const cv::Exception& error) {
  ThrowAsStandard(error);
}

void MarkPlace(RgbImage& drawn, double x, double y) try {
  constexpr int kShift = 4;  // OpenCV's fixed point: places lie between pixels
  cv::Mat picture(drawn.height, drawn.width, CV_8UC3, drawn.pixels.get());
  // In OpenCV whole coordinates are the centres of pixels.
  const cv::Point middle(static_cast<int>(std::lround((x - 0.5) * (1 << kShift))),
                         static_cast<int>(std::lround((y - 0.5) * (1 << kShift))));
  const int width = std::max(1, std::min(drawn.height, drawn.width) / 128);
  const int radius = 5 * width;
  const cv::Scalar dark(0, 0, 0), light(255, 255, 255);
  cv::circle(picture, middle, radius << kShift, dark, 3 * width, cv::LINE_AA, kShift);
  cv::circle(picture, middle, radius << kShift, light, width, cv::LINE_AA, kShift);
} catch (const cv::Exception& error) {
  ThrowAsStandard(error);
}

int64_t HeatBytes(int64_t height, int64_t width) {
  // The drawing and its PNG, each of three bytes a pixel, and the rows and columns.
  return 6 * height * width + static_cast<int64_t>(sizeof(Between)) * (height + width);
}

}  // namespace fovea
