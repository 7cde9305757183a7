// A comparison as a page: tables and plots in one HTML file that needs no other.
#pragma once

#include <string>
#include <vector>

#include "client/cpp/comparison.h"

namespace fovea::client {

// `images`: the paths that the rounds took in turn.
std::string ComparisonReport(const Comparison& comparison, const std::vector<std::string>& images);

}  // namespace fovea::client
