// <version>/model.safetensors: found, and told apart from the formats that run code when they are
// read. Its content is the model zoo's to check.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model_zoo/folder/repository_fs.h"

namespace fovea {

inline constexpr std::string_view kWeightsFile = "model.safetensors";

// Where a version's weights lie, and the state they were found in. Refers to the repository's
// files.
struct WeightsFile {
  const RepositoryFs* fs = nullptr;
  std::string path;   // in that repository: "cats/1/model.safetensors"
  std::string shown;  // in messages, which already name the model: "1/model.safetensors"
  FileIdentity identity;
};

// The weights of a model's version. FAILED_PRECONDITION: none there, or only in a format that is
// never read ("unsupported weight format"); NOT_FOUND: no such version.
absl::StatusOr<WeightsFile> FindWeights(const RepositoryFs& fs, std::string_view model,
                                        int64_t version);

// Opens them for the factory. FAILED_PRECONDITION "unsupported weight format": by its first bytes a
// pickle, a zip archive or anything else but safetensors; UNAVAILABLE: no longer what was found.
absl::StatusOr<std::unique_ptr<RepositoryFile>> OpenWeights(const WeightsFile& weights);

}  // namespace fovea
