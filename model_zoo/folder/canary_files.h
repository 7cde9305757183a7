// The files of a version's canary: found on every look at the disk, read only when they are needed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "model_zoo/folder/model_spec.h"
#include "model_zoo/folder/repository_fs.h"

namespace fovea {

// Where one of them lies, and the state it was found in. Refers to the repository's files.
struct CanaryFile {
  const RepositoryFs* fs = nullptr;
  std::string path;  // in that repository: "cats/1/cat.jpg"
  FileIdentity identity;
};
struct FoundCanary {
  CanaryFile input;                    // the picture or the tensor
  std::optional<CanaryFile> expected;  // the spec's output_file, where it has one
};

// The files as they were read.
struct CanaryFiles {
  std::string input;
  std::string expected;  // of output_file; otherwise empty
};

// The files that `canary` names, in the version's folder or else in the model's; nothing of them is
// read. FAILED_PRECONDITION: one is not there (canary.missing) or longer than
// limits::kMaxCanaryFileBytes; RepositoryFs' errors.
absl::StatusOr<FoundCanary> FindCanary(const RepositoryFs& fs, std::string_view model,
                                       int64_t version, const CanarySpec& canary);

// UNAVAILABLE: no longer what was found. Out of memory throws.
absl::StatusOr<CanaryFiles> ReadCanary(const FoundCanary& found);

}  // namespace fovea
