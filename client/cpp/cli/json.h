// What `--json` prints. A unit is the end of its field's name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/cli/comparison.h"
#include "client/cpp/types.h"

namespace fovea::client {

// One image of `fovea classify`.
struct ClassifiedFile {
  std::string path;
  absl::StatusOr<ClassifyResponse> outcome;
};

std::string ModelsJson(const std::vector<ModelInfo>& models);
std::string ClassifiedJson(const ModelId& model, const std::vector<ClassifiedFile>& files);
std::string StatisticsJson(const std::vector<ModelStatistics>& statistics);
std::string ComparisonJson(const Comparison& comparison, const std::vector<std::string>& images);

}  // namespace fovea::client
