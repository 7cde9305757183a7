// Time and peak memory of every attention against the number of tokens.
#pragma once
#include <set>
#include <string>

#include "tests/bench/kernels/floors.h"

namespace fovea::bench {

struct ScalingResult {
  bool met = true;                 // every floor
  std::set<std::string> measured;  // their rows
};

// Measures each attention at 16 to 4,096 tokens, key-only attention to 65,536, in fp32 on all
// cores, and writes a CSV (attention, tokens, milliseconds, peak bytes) to `path` with `machine` in
// its first line. Prints each attention's time against the dense ones at the same tokens, and
// the fitted exponents of key-only attention and its time against dense SDPA at 65,536 tokens,
// which have floors.
ScalingResult MeasureScaling(const std::string& path, const std::string& machine,
                             const Floors& floors);

}  // namespace fovea::bench
