#include "model_zoo/training/data/coco/coco_masks.h"

#include <algorithm>
#include <cmath>

#include "base/run_lengths.h"

namespace fovea::models::training {
namespace {

// The first pixel whose middle lies at `place` or behind it, in [0, count].
int FirstFrom(double place, int count) {
  return static_cast<int>(std::clamp(std::ceil(place - 0.5), 0.0, static_cast<double>(count)));
}

}  // namespace

void FillPolygon(std::span<const float> polygon, cv::Point corner, cv::Mat& mask) {
  // Each edge turns over everything to its right in the rows that it crosses; what is turned over
  // an odd number of times lies inside.
  cv::Mat turns = cv::Mat::zeros(mask.rows, mask.cols + 1, CV_8U);
  const size_t corners = polygon.size() / 2;
  for (size_t i = 0; i < corners; ++i) {
    const size_t next = (i + 1) % corners;
    double x0 = double{polygon[2 * i]} - corner.x, y0 = double{polygon[2 * i + 1]} - corner.y;
    double x1 = double{polygon[2 * next]} - corner.x;
    double y1 = double{polygon[2 * next + 1]} - corner.y;
    if (y0 > y1) {
      std::swap(x0, x1);
      std::swap(y0, y1);
    }
    const int bottom = FirstFrom(y1, mask.rows);
    for (int y = FirstFrom(y0, mask.rows); y < bottom; ++y) {
      const double crossing = x0 + (y + 0.5 - y0) * (x1 - x0) / (y1 - y0);
      turns.at<uint8_t>(y, FirstFrom(crossing, mask.cols)) ^= 1;
    }
  }
  for (int y = 0; y < mask.rows; ++y) {
    const uint8_t* turn = turns.ptr<uint8_t>(y);
    uint8_t* row = mask.ptr<uint8_t>(y);
    uint8_t inside = 0;
    for (int x = 0; x < mask.cols; ++x) {
      inside ^= turn[x];
      if (inside != 0) row[x] = 255;
    }
  }
}

cv::Rect AreaOf(std::span<const int64_t> run_lengths, cv::Size picture) {
  int64_t left = picture.width, right = 0, top = picture.height, bottom = 0;
  int64_t end = 0;
  for (size_t i = 0; i < run_lengths.size(); ++i) {
    const int64_t begin = end;
    end += run_lengths[i];
    if (i % 2 == 0 || begin == end) continue;
    const int64_t first = begin / picture.height, last = (end - 1) / picture.height;  // columns
    left = std::min(left, first);
    right = std::max(right, last + 1);
    // What goes on in the next column has the lowest pixel of the one and the highest of the other.
    top = std::min(top, first == last ? begin % picture.height : 0);
    bottom =
        std::max(bottom, first == last ? (end - 1) % picture.height + 1 : int64_t{picture.height});
  }
  if (right == 0) return {};
  return {static_cast<int>(left), static_cast<int>(top), static_cast<int>(right - left),
          static_cast<int>(bottom - top)};
}

cv::Mat MaskOf(std::span<const int64_t> run_lengths, cv::Size picture, cv::Rect part) {
  cv::Mat columns = cv::Mat::zeros(part.width, part.height, CV_8U);  // transposed
  int64_t end = 0;
  for (size_t i = 0; i < run_lengths.size(); ++i) {
    const int64_t begin = end;
    end += run_lengths[i];
    if (i % 2 == 0 || begin == end) continue;
    const int64_t last = std::min<int64_t>((end - 1) / picture.height, part.br().x - 1);
    for (int64_t x = std::max<int64_t>(begin / picture.height, part.x); x <= last; ++x) {
      const int64_t from = std::max<int64_t>(begin - x * picture.height, part.y);
      const int64_t to = std::min<int64_t>(end - x * picture.height, part.br().y);
      if (from >= to) continue;
      uint8_t* column = columns.ptr<uint8_t>(static_cast<int>(x - part.x));
      std::fill(column + (from - part.y), column + (to - part.y), uint8_t{255});
    }
  }
  return columns.t();
}

std::string RunLengthsOf(const cv::Mat& mask) {
  RunLengths runs;
  for (int x = 0; x < mask.cols; ++x) {
    for (int y = 0; y < mask.rows; ++y) runs.Add(mask.at<uint8_t>(y, x) != 0, 1);
  }
  return runs.Text();
}

}  // namespace fovea::models::training
