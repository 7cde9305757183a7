// A model's folder for callers without a repository: the Python bindings of the model zoo. Only the
// standard library and the model's description cross this header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model_zoo/model_description.h"

namespace fovea {

// What lies in `folder` ("model_zoo/demo/shapes_vit"), read as the server would: the newest version
// that its policy serves, weights_of looked up in the folders beside it. `weights` is the file's
// path, empty where they are random. Throws std::runtime_error with a sentence where the server
// would not load it; the weights' content is not checked.
models::ModelDescription DescribeModelFolder(const std::filesystem::path& folder);

struct ModelVersionOnDisk {
  models::ModelDescription description;  // as DescribeModelFolder's
  int64_t version = 0;
  std::vector<std::string> labels;  // by class; empty: it has none
  bool untrained = false;           // its weights are random numbers
};

// The version of this number, whether its policy serves it or not; none: the newest that it serves.
// Throws as DescribeModelFolder.
ModelVersionOnDisk DescribeModelVersion(const std::filesystem::path& folder,
                                        std::optional<int64_t> version);

// How the model's pictures are prepared: as its backbone's `published`, with what the folder says
// differently. Throws as DescribeModelFolder.
models::Preprocessing PreprocessingOfModelFolder(const std::filesystem::path& folder,
                                                 const models::Preprocessing& published);

}  // namespace fovea
