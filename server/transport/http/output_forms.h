// How a caller of HTTP wants its outputs.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace fovea {

// As bytes behind the JSON, or as numbers in it.
struct OutputForms {
  bool binary = false;  // those that are not named
  std::vector<std::pair<std::string, bool>> named;

  bool IsBinary(const std::string& output) const {
    const auto found = std::ranges::find(named, output, &std::pair<std::string, bool>::first);
    return found == named.end() ? binary : found->second;
  }
};

}  // namespace fovea
