// Folders and text files of a user's data.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/picture_folders.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

// What base/picture_folders.h found; throws DataError in its words where it did not.
template <typename Found>
Found OrThrow(absl::StatusOr<Found> found) {
  if (!found.ok()) throw DataError(std::string(found.status().message()));
  return *std::move(found);
}

// A label in each line, empty lines at the end left out. Throws DataError where there is none, an
// empty one between others, two equal ones, or more than limits::kMaxLabelsBytes.
std::vector<std::string> LinesOf(const std::filesystem::path& file);

}  // namespace fovea::models::training
