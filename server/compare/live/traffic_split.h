// Which arm of an experiment a request goes to. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// Shares keys out by weights. Each arm draws a number from the key, and the one whose number is
// least for its weight has it (weighted rendezvous hashing: Thaler and Ravishankar, 1998; weights
// as by Schindelhauer and Schomaker, 2005). So no other key moves than those that the arm whose
// weight grows takes from the others, or the one whose weight shrinks loses. The same on every
// machine, so that replicas agree; another salt shares the same keys out anew. Immutable.
class TrafficSplit {
 public:
  struct Arm {
    std::string name;  // distinct
    double weight = 0;
  };
  // At least one weight is above 0; all are finite, and none is negative.
  TrafficSplit(std::string_view salt, std::vector<Arm> arms);

  // The number of the arm that `key` goes to.
  size_t Choose(std::string_view key) const;
  // For a request without a key; `draw` is a number that differs for each request.
  size_t Choose(uint64_t draw) const;

 private:
  size_t ChooseHash(uint64_t hash) const;

  uint64_t salt_;
  struct Seed {
    uint64_t seed;
    double weight;
  };
  std::vector<Seed> arms_;
};

}  // namespace fovea
