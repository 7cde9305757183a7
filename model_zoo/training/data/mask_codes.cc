#include "model_zoo/training/data/mask_codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {
namespace {

constexpr int kFirstCharacter = 48, kBits = 5;

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

// Numbers in pieces of five bits, lowest first, each in a character from '0' on; a sixth bit says
// that another follows, and the last one's highest bit is the sign. From the fourth number on, the
// difference to the one before the last.
std::vector<uint32_t> RunLengthsOf(std::string_view text) {
  std::vector<uint32_t> lengths;
  for (size_t at = 0; at < text.size();) {
    int64_t number = 0;
    int shift = 0, piece = 0;
    do {
      if (at == text.size() || shift > 30) throw DataError("its run lengths end within a number");
      piece = static_cast<unsigned char>(text[at++]) - kFirstCharacter;
      if (piece < 0 || piece > 63) throw DataError("its run lengths hold a strange character");
      number |= int64_t{piece & 31} << shift;
      shift += kBits;
    } while ((piece & 32) != 0);
    if ((piece & 16) != 0) number -= int64_t{1} << shift;
    if (lengths.size() > 2) number += lengths[lengths.size() - 2];
    if (number < 0 || number > std::numeric_limits<uint32_t>::max()) {
      throw DataError("its run lengths hold a number below 0 or too large");
    }
    lengths.push_back(static_cast<uint32_t>(number));
  }
  return lengths;
}

std::string TextOf(std::span<const uint32_t> run_lengths) {
  std::string text;
  for (size_t i = 0; i < run_lengths.size(); ++i) {
    int64_t number = run_lengths[i];
    if (i > 2) number -= run_lengths[i - 2];
    for (bool more = true; more;) {
      int piece = static_cast<int>(number & 31);
      number >>= kBits;
      more = number != ((piece & 16) != 0 ? -1 : 0);
      if (more) piece |= 32;
      text.push_back(static_cast<char>(piece + kFirstCharacter));
    }
  }
  return text;
}

cv::Mat MaskOf(std::span<const uint32_t> run_lengths, cv::Size size) {
  const uint64_t pixels = static_cast<uint64_t>(size.width) * size.height;
  uint64_t all = 0;
  for (uint32_t length : run_lengths) all += length;
  if (all != pixels) {
    throw DataError("its run lengths are of " + std::to_string(all) + " pixels, the picture has " +
                    std::to_string(pixels));
  }
  cv::Mat columns(size.width, size.height, CV_8U);  // transposed: a column is a row
  uint8_t* at = columns.data;
  for (size_t i = 0; i < run_lengths.size(); ++i) {
    std::fill_n(at, run_lengths[i], static_cast<uint8_t>(i % 2 == 0 ? 0 : 255));
    at += run_lengths[i];
  }
  return columns.t();
}

std::vector<uint32_t> RunLengthsOf(const cv::Mat& mask) {
  std::vector<uint32_t> lengths;
  bool set = false;
  uint32_t length = 0;
  for (int x = 0; x < mask.cols; ++x) {
    for (int y = 0; y < mask.rows; ++y) {
      if ((mask.at<uint8_t>(y, x) != 0) != set) {
        lengths.push_back(length);
        length = 0;
        set = !set;
      }
      ++length;
    }
  }
  lengths.push_back(length);
  return lengths;
}

}  // namespace fovea::models::training
