// Curves over a range of values, as SVG for pages and as a picture. Both are laid out alike, with
// logarithmic scales: a power of the place is a straight line, and its exponent the slope.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/imaging/image.h"

namespace fovea::client {

struct CurveChart {
  std::string title;  // with its unit
  std::string axis;
  struct Tick {
    double place = 1;  // above zero
    std::string text;
  };
  std::vector<Tick> ticks;   // of each value
  bool even_places = false;  // ticks are one as far from the other, whatever their places
  struct Point {
    double lower = 0, value = 0, upper = 0;
  };
  struct Curve {
    std::string name;
    std::vector<std::optional<Point>> points;  // at each tick; none, or none above zero: a gap
  };
  std::vector<Curve> curves;
};

inline constexpr size_t kCurveColours = 8;  // curves beyond repeat them

// An <svg> element of width 100 %. Its colours are CSS's --curve-0 to --curve-7, --ink and --line
// of the page around it.
std::string SvgCurves(const CurveChart& chart);

// The charts, two in a row, under a title; on white. Throws std::bad_alloc.
RgbImage DrawCurves(const std::string& title, const std::vector<CurveChart>& charts);

}  // namespace fovea::client
