#include "model_zoo/training/data/generated/canvas.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <opencv2/imgproc.hpp>

namespace fovea::models::training {
namespace {

constexpr int kSamples = 4;       // a side of a pixel
constexpr int kFractionBits = 4;  // of the fixed point coordinates that cv::fillPoly takes

struct Bounds {
  float left = 1e9f, top = 1e9f, right = -1e9f, bottom = -1e9f;
};

Bounds BoundsOf(const Contours& contours) {
  Bounds bounds;
  for (const auto& contour : contours) {
    for (cv::Point2f p : contour) {
      bounds.left = std::min(bounds.left, p.x);
      bounds.top = std::min(bounds.top, p.y);
      bounds.right = std::max(bounds.right, p.x);
      bounds.bottom = std::max(bounds.bottom, p.y);
    }
  }
  return bounds;
}

// Counts the samples inside of each pixel.
cv::Mat AlphaOf(const cv::Mat& samples, cv::Size size) {
  cv::Mat alpha(size, CV_8U);
  for (int y = 0; y < size.height; ++y) {
    uint8_t* out = alpha.ptr<uint8_t>(y);
    for (int x = 0; x < size.width; ++x) {
      int inside = 0;
      for (int dy = 0; dy < kSamples; ++dy) {
        const uint8_t* row = samples.ptr<uint8_t>(kSamples * y + dy) + kSamples * x;
        for (int dx = 0; dx < kSamples; ++dx) inside += row[dx];
      }
      out[x] = static_cast<uint8_t>(inside * 255 / (kSamples * kSamples));
    }
  }
  return alpha;
}

}  // namespace

Canvas::Canvas(cv::Size size)
    : size_(size), unit_(std::min(size.width, size.height)), pixels_(size, CV_32FC3) {}

Coverage Canvas::Cover(const Contours& contours) const {
  const Bounds bounds = BoundsOf(contours);
  const auto pixel = [this](float length) { return static_cast<int>(std::floor(length * unit_)); };
  const cv::Rect box(cv::Point(pixel(bounds.left), pixel(bounds.top)),
                     cv::Point(pixel(bounds.right) + 1, pixel(bounds.bottom) + 1));
  Coverage coverage;
  coverage.where = box & cv::Rect({0, 0}, size_);
  if (coverage.where.empty()) return coverage;

  cv::Mat samples = cv::Mat::zeros(coverage.where.size() * kSamples, CV_8U);
  std::vector<std::vector<cv::Point>> fixed;
  const float scale = unit_ * kSamples * (1 << kFractionBits);
  // A sample lies in the middle of its cell; OpenCV counts from the middle of the first.
  const float half = 0.5f * (1 << kFractionBits);
  const cv::Point origin = coverage.where.tl() * (kSamples << kFractionBits);
  for (const auto& contour : contours) {
    auto& points = fixed.emplace_back();
    for (cv::Point2f p : contour) {
      points.push_back(cv::Point(static_cast<int>(std::floor(p.x * scale - half + 0.5f)),
                                 static_cast<int>(std::floor(p.y * scale - half + 0.5f))) -
                       origin);
    }
  }
  cv::fillPoly(samples, fixed, cv::Scalar(1), cv::LINE_8, kFractionBits);
  coverage.alpha = AlphaOf(samples, coverage.where.size());
  return coverage;
}

void Canvas::Fill(const Texture& texture) {
  for (int y = 0; y < size_.height; ++y) {
    texture.Row(0.5f / unit_, (y + 0.5f) / unit_, 1.0f / unit_, size_.width,
                pixels_.ptr<Colour>(y));
  }
}

void Canvas::Paint(const Coverage& coverage, const Texture& texture, float opacity) {
  const cv::Rect where = coverage.where;
  std::vector<Colour> colours(where.width);
  for (int y = 0; y < where.height; ++y) {
    texture.Row((where.x + 0.5f) / unit_, (where.y + y + 0.5f) / unit_, 1.0f / unit_, where.width,
                colours.data());
    Colour* row = pixels_.ptr<Colour>(where.y + y) + where.x;
    const uint8_t* alpha = coverage.alpha.ptr<uint8_t>(y);
    for (int x = 0; x < where.width; ++x) {
      if (alpha[x] != 0) row[x] += (colours[x] - row[x]) * (alpha[x] * (opacity / 255.0f));
    }
  }
}

void Canvas::Shade(Coverage coverage, float strength, float blur_radius) {
  if (coverage.where.empty()) return;
  const int border = static_cast<int>(blur_radius * unit_);
  if (border > 0) {
    // The blur of 8-bit pictures is fixed point in OpenCV, the same with every instruction set.
    cv::Mat wider;
    cv::copyMakeBorder(coverage.alpha, wider, border, border, border, border, cv::BORDER_CONSTANT);
    cv::blur(wider, wider, cv::Size(2 * border + 1, 2 * border + 1));
    const cv::Rect box(coverage.where.x - border, coverage.where.y - border, wider.cols,
                       wider.rows);
    coverage.where = box & cv::Rect({0, 0}, size_);
    coverage.alpha = wider(coverage.where - box.tl());
  }
  for (int y = 0; y < coverage.where.height; ++y) {
    Colour* row = pixels_.ptr<Colour>(coverage.where.y + y) + coverage.where.x;
    const uint8_t* alpha = coverage.alpha.ptr<uint8_t>(y);
    for (int x = 0; x < coverage.where.width; ++x) row[x] *= 1.0f - alpha[x] * (strength / 255.0f);
  }
}

cv::Mat Canvas::Quantised() const {
  cv::Mat bytes(size_, CV_8UC3);
  for (int y = 0; y < size_.height; ++y) {
    const float* in = pixels_.ptr<float>(y);
    uint8_t* out = bytes.ptr<uint8_t>(y);
    for (int i = 0; i < 3 * size_.width; ++i) {
      out[i] = static_cast<uint8_t>(std::clamp(in[i] * 255.0f + 0.5f, 0.0f, 255.0f));
    }
  }
  return bytes;
}

float HiddenShare(const Coverage& target, const Coverage& cover) {
  int64_t all = 0, hidden = 0;
  for (int y = 0; y < target.where.height; ++y) {
    const uint8_t* row = target.alpha.ptr<uint8_t>(y);
    for (int x = 0; x < target.where.width; ++x) all += row[x];
  }
  const cv::Rect shared = target.where & cover.where;
  for (int y = 0; y < shared.height; ++y) {
    const uint8_t* below =
        target.alpha.ptr<uint8_t>(shared.y - target.where.y + y) + shared.x - target.where.x;
    const uint8_t* above =
        cover.alpha.ptr<uint8_t>(shared.y - cover.where.y + y) + shared.x - cover.where.x;
    for (int x = 0; x < shared.width; ++x) hidden += std::min(below[x], above[x]);
  }
  return all == 0 ? 0.0f : static_cast<float>(hidden) / static_cast<float>(all);
}

}  // namespace fovea::models::training
