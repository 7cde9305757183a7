// The floors of tests/bench/targets.csv.
#pragma once
#include <string>
#include <unordered_map>

namespace fovea::bench {

struct Floor {
  bool at_least;  // measured >= bound; otherwise measured <= bound
  double bound;

  bool MetBy(double measured) const { return at_least ? measured >= bound : measured <= bound; }
};

// By id. Throws std::runtime_error where the file cannot be read or a line is malformed.
std::unordered_map<std::string, Floor> ReadFloors(const std::string& path);

}  // namespace fovea::bench
