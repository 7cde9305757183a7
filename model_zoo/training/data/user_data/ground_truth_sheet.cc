#include "model_zoo/training/data/user_data/ground_truth_sheet.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>

#include "base/class_colour.h"
#include "model_zoo/training/data/loading/augmentation.h"

namespace fovea::models::training {
namespace {

constexpr int kGap = 2, kMaxSide = 4096, kMaxCells = 1000;
constexpr double kTint = 0.55;  // of a mask over its picture

cv::Scalar ColourOf(int64_t class_index) {
  const auto colour = ClassColour(class_index);
  return cv::Scalar(colour[0], colour[1], colour[2]);
}

void Tint(cv::Mat& rgb, const cv::Mat& where, const cv::Scalar& colour) {
  cv::Mat tinted;
  cv::addWeighted(rgb, 1 - kTint, cv::Mat(rgb.size(), CV_8UC3, colour), kTint, 0, tinted);
  tinted.copyTo(rgb, where);
}

void DrawClassMap(const cv::Mat& map, const std::vector<std::string>& labels, cv::Mat& rgb) {
  // A background is left as it is.
  const int first = !labels.empty() && labels.front() == "background" ? 1 : 0;
  for (int level = first; level < static_cast<int>(labels.size()); ++level) {
    const cv::Mat where = map == level;
    if (cv::countNonZero(where) > 0) Tint(rgb, where, ColourOf(level - first));
  }
  Tint(rgb, map == IgnoredLevel(map.type()), cv::Scalar::all(128));
}

void Write(const std::string& text, cv::Point at, const cv::Scalar& colour, cv::Mat& rgb) {
  constexpr double kScale = 0.3;
  int below = 0;
  const cv::Size size = cv::getTextSize(text, cv::FONT_HERSHEY_SIMPLEX, kScale, 1, &below);
  at.y = std::max(at.y, size.height + 1);
  cv::rectangle(rgb, cv::Rect(at.x, at.y - size.height - 1, size.width + 1, size.height + 2),
                cv::Scalar::all(0), cv::FILLED);
  cv::putText(rgb, text, at, cv::FONT_HERSHEY_SIMPLEX, kScale, colour, 1, cv::LINE_AA);
}

void DrawBox(const Object& object, const std::string& label, cv::Mat& rgb) {
  const cv::Scalar colour = ColourOf(object.class_index);
  const cv::Rect box(
      cv::Point(cvFloor(object.box.x), cvFloor(object.box.y)),
      cv::Point(cvCeil(object.box.x + object.box.width), cvCeil(object.box.y + object.box.height)));
  cv::Mat drawn = rgb.clone();
  cv::rectangle(drawn, box, colour, 1);
  cv::Mat where(rgb.size(), CV_8U, cv::Scalar(255));
  if (object.crowd) {
    for (int y = 0; y < where.rows; ++y) {
      for (int x = 0; x < where.cols; ++x) {
        if ((x + y) / 4 % 2 == 0) where.at<uint8_t>(y, x) = 0;
      }
    }
  }
  drawn.copyTo(rgb, where);
  Write(label, box.tl(), colour, rgb);
}

cv::Mat WithGroundTruth(const SampleSource& source, const Sample& sample) {
  cv::Mat rgb = sample.rgb.clone();
  if (!sample.class_map.empty()) DrawClassMap(sample.class_map, source.map_labels(), rgb);
  for (const Object& object : sample.objects) {
    if (!object.mask || !sample.class_map.empty()) continue;
    Tint(rgb, WholeMask(object, rgb.size()), ColourOf(object.class_index));
  }
  for (const Object& object : sample.objects) {
    DrawBox(object, source.labels()[static_cast<size_t>(object.class_index)], rgb);
  }
  if (sample.class_index) {
    Write(source.labels()[static_cast<size_t>(*sample.class_index)], {1, 9},
          ColourOf(*sample.class_index), rgb);
  }
  return rgb;
}

}  // namespace

cv::Mat GroundTruthSheet(const SampleSource& source, uint64_t first, int rows, int columns,
                         int side) {
  if (rows < 1 || columns < 1 || rows > kMaxCells / columns || side < 1 || side > kMaxSide) {
    throw std::invalid_argument("a sheet has 1 to 1000 cells of 1 to 4096 pixels");
  }
  cv::Mat sheet(rows * (2 * side + 2 * kGap), columns * (side + kGap), CV_8UC3, cv::Scalar::all(0));
  for (int i = 0; i < rows * columns; ++i) {
    if (first + i >= source.size()) break;
    const Sample sample = Placed(source.Get(first + i), {side, side}, Framing::kWhole).sample;
    const cv::Rect above((i % columns) * (side + kGap), (i / columns) * 2 * (side + kGap), side,
                         side);
    sample.rgb.copyTo(sheet(above));
    WithGroundTruth(source, sample).copyTo(sheet(above + cv::Point(0, side)));
  }
  return sheet;
}

}  // namespace fovea::models::training
