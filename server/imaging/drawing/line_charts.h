// Small line charts beside each other, for numbers of a model's layers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/imaging/image.h"

namespace fovea {

struct LineChart {
  std::string title;
  struct Line {
    std::string name;                           // empty: not told
    std::vector<std::optional<double>> values;  // at 0, 1, ...; none, or no finite number: a gap
  };
  std::vector<Line> lines;
};

// The charts, two in a row, each over `axis` ("layer"), below `heading`, which says what they are
// of; empty: there is none. Texts are drawn in ASCII. Throws std::bad_alloc.
RgbImage DrawLineCharts(const std::vector<LineChart>& charts, const std::string& axis,
                        const std::string& heading = "");

}  // namespace fovea
