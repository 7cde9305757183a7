// What `--json` prints. A unit is the end of its field's name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/types.h"

namespace fovea::client {

std::string ModelsJson(const std::vector<ModelInfo>& models);

// One document in pieces, to be written as the results come: head, each result after "\n" or ",\n",
// tail. `without_result`: files that were not sent or not answered, where that is known.
std::string ClassifiedJsonHead(const ModelId& model);
std::string ClassifiedJson(const std::string& path,
                           const absl::StatusOr<ClassifyResponse>& outcome);  // a line
std::string ClassifiedJsonTail(size_t classified, size_t failed,
                               std::optional<size_t> without_result, bool interrupted);

// A line for each object in COCO's format of results, ",\n" between them; empty where none was
// found. An image is named by its file: by its number where it is one, as in COCO
// ("000000000139.jpg" is 139), otherwise by the path. A category is the class's number. Beside
// COCO's fields: "category_name". Of objects with masks also the mask, as compressed run lengths.
std::string DetectedJson(const std::string& path, const ImageDetections& found);

// A line for each class in COCO's format of results for stuff: run lengths, compressed. Otherwise
// as DetectedJson.
std::string SegmentedJson(const std::string& path, const ImageSegmentation& map);

std::string StatisticsJson(const std::vector<ModelStatistics>& statistics);

}  // namespace fovea::client
