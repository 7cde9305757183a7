// The floors of tests/bench/targets.csv.
#pragma once
#include <string>
#include <unordered_map>

namespace fovea::bench {

struct Floor {
  bool at_least;    // measured >= bound; otherwise measured <= bound
  double bound;     // what `make bench` insists on
  double moonshot;  // what is aimed at

  bool MetBy(double measured) const { return at_least ? measured >= bound : measured <= bound; }
  bool MoonshotMetBy(double measured) const {
    return at_least ? measured >= moonshot : measured <= moonshot;
  }
};

using Floors = std::unordered_map<std::string, Floor>;

// By id. Throws std::runtime_error where the file cannot be read or a line is malformed.
Floors ReadFloors(const std::string& path);

}  // namespace fovea::bench
