// A comparison as a page: tables and plots in one HTML file that needs no other.
#pragma once

#include <string>
#include <vector>

#include "client/cpp/cli/dataset_figures.h"
#include "client/cpp/comparison.h"

namespace fovea::client {

// `images`: the paths that the rounds took in turn.
// `dataset`: of its variants; null: none was measured.
std::string ComparisonReport(const Comparison& comparison, const std::vector<std::string>& images,
                             const std::string& command, const DatasetFigures* dataset = nullptr);

}  // namespace fovea::client
