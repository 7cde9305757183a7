// Lines, dots and texts onto a white picture, for plots.
#pragma once

#include <string>
#include <utility>

#include "server/imaging/image.h"

namespace fovea {

// Places are in units from the upper left corner, each `scale` pixels wide: with 2 a plot is sharp
// on fine screens, too. Everything throws std::bad_alloc.
class PictureCanvas {
 public:
  PictureCanvas(int width, int height, int scale);

  struct Place {
    double x = 0, y = 0;
  };
  enum class Anchor { kStart, kMiddle, kEnd };

  void Line(const Place& from, const Place& to, double width, const Rgb& colour);
  void Dot(const Place& at, double radius, const Rgb& colour);
  // On its baseline; characters that are not ASCII become "?". `size`: of its letters, about.
  void Text(const Place& at, Anchor anchor, const std::string& text, double size,
            const Rgb& colour);

  RgbImage Take() && { return std::move(picture_); }

 private:
  const int scale_;
  RgbImage picture_;
};

}  // namespace fovea
