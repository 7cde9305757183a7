#include "tests/bench/kernels/floors.h"

#include <sstream>
#include <stdexcept>

namespace fovea::bench {

Floors::Floors(std::istream& csv, const std::string& command) {
  std::string line;
  bool header = true;
  while (std::getline(csv, line)) {
    if (line.empty() || line[0] == '#') continue;
    if (header) {
      if (line != "id,command,what,size,against,sense,bound,moonshot") {
        throw std::runtime_error("the floors have an unexpected header: " + line);
      }
      header = false;
      continue;
    }
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    if (cells.size() != 8 || (cells[5] != ">=" && cells[5] != "<=")) {
      throw std::runtime_error("the floors have a malformed line: " + line);
    }
    if (cells[1] != command) continue;
    floors_[cells[0]] = {cells[5] == ">=", std::stod(cells[6]), std::stod(cells[7])};
  }
}

const Floor& Floors::at(const std::string& id) const {
  const auto floor = floors_.find(id);
  if (floor == floors_.end()) throw std::runtime_error("there is no floor " + id);
  return floor->second;
}

std::vector<std::string> Floors::Unmeasured(const std::set<std::string>& measured) const {
  std::vector<std::string> unmeasured;
  for (const auto& [id, floor] : floors_) {
    if (!measured.contains(id)) unmeasured.push_back(id);
  }
  return unmeasured;
}

}  // namespace fovea::bench
