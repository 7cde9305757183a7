#include "tests/bench/kernels/floors.h"

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace fovea::bench {

Floors ReadFloors(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  Floors floors;
  std::string line;
  bool header = true;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    if (header) {
      if (line != "id,command,what,size,against,sense,bound,moonshot") {
        throw std::runtime_error(path + ": unexpected header: " + line);
      }
      header = false;
      continue;
    }
    std::vector<std::string> cells;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    if (cells.size() != 8 || (cells[5] != ">=" && cells[5] != "<=")) {
      throw std::runtime_error(path + ": malformed line: " + line);
    }
    floors[cells[0]] = {cells[5] == ">=", std::stod(cells[6]), std::stod(cells[7])};
  }
  return floors;
}

}  // namespace fovea::bench
