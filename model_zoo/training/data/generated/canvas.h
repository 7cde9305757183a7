// Painting in coordinates that do not depend on the resolution: lengths are fractions of the
// picture's shorter side, the origin is the upper left corner, y points down.
#pragma once

#include <opencv2/core.hpp>

#include "model_zoo/training/data/generated/shapes.h"
#include "model_zoo/training/data/generated/texture.h"

namespace fovea::models::training {

// How much of each pixel a shape covers, in the part of the picture that it touches.
struct Coverage {
  cv::Rect where;
  cv::Mat alpha;  // uint8 [where.height, where.width]; 255: all of the pixel
};

class Canvas {
 public:
  explicit Canvas(cv::Size size);

  float unit() const { return unit_; }  // pixels of the shorter side
  float width() const { return size_.width / unit_; }
  float height() const { return size_.height / unit_; }

  // Sampled 4 x 4 times a pixel, in integers: no two machines disagree.
  Coverage Cover(const Contours& contours) const;

  void Fill(const Texture& texture);
  void Paint(const Coverage& coverage, const Texture& texture, float opacity);
  // Multiplies colours by 1 - strength where covered; `blur_radius` softens the edge.
  void Shade(Coverage coverage, float strength, float blur_radius);

  // CV_32FC3, RGB, nominally in [0, 1].
  cv::Mat& pixels() { return pixels_; }
  // uint8 RGB, rounded and clamped.
  cv::Mat Quantised() const;

 private:
  cv::Size size_;
  float unit_;
  cv::Mat pixels_;
};

// The share of `target` that `cover` lies over, in [0, 1].
float HiddenShare(const Coverage& target, const Coverage& cover);

}  // namespace fovea::models::training
