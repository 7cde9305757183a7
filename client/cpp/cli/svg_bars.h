// Bar charts as SVG, for reports. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace fovea::client {

struct Bar {
  std::string name;
  std::vector<double> parts;  // one behind the other, none below zero
  std::string text;           // beside it, the value with its unit
  // Drawn over its end.
  struct Interval {
    double lower = 0, upper = 0;
  };
  std::optional<Interval> interval;
};

struct BarChart {
  std::string title;
  std::vector<std::string> parts;  // what they are; one: no legend
  std::vector<Bar> bars;
  std::optional<double> mark;  // a line across all bars
};

// An <svg> element of width 100 %. Its colours are CSS's --part-0, --part-1 and so on, --ink and
// --line of the page around it.
std::string SvgBars(const BarChart& chart);

}  // namespace fovea::client
