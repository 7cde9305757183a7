// What `fovea compare` prints with --json and --csv: the names of proto/fovea/v1/comparison.proto,
// as POST /v1/compare answers it, and beside them the `command`, each image's `file` and the
// `dataset`. What is absent is left out.
#pragma once

#include <string>
#include <vector>

#include "client/cpp/cli/dataset_figures.h"
#include "client/cpp/comparison.h"

namespace fovea::client {

// `images`: the paths of the comparison's. `dataset`: of its variants; null: none was measured.
std::string ComparisonJson(const Comparison& comparison, const std::vector<std::string>& images,
                           const std::string& command, const DatasetFigures* dataset = nullptr);

// A row for each variant, without answers and images. What all variants share stands in each row.
std::string ComparisonCsv(const Comparison& comparison, const std::string& command,
                          const DatasetFigures* dataset = nullptr);

}  // namespace fovea::client
