// The floors of tests/bench/targets.csv.
#pragma once
#include <istream>
#include <map>
#include <set>
#include <string>
#include <vector>

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

// Those of one command, by id.
class Floors {
 public:
  // `csv`: the text of targets.csv. Throws std::runtime_error where a line is malformed.
  Floors(std::istream& csv, const std::string& command);

  // Throws std::runtime_error where the command has no such row.
  const Floor& at(const std::string& id) const;
  // The ids that are not among `measured`: a row that is renamed would be no floor any more.
  std::vector<std::string> Unmeasured(const std::set<std::string>& measured) const;

 private:
  std::map<std::string, Floor> floors_;
};

}  // namespace fovea::bench
