// Names of files, as they stand on a command line, and their contents.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace fovea::client {

struct NamedFile {
  std::string path;
  absl::Status status;  // not OK: the pattern `path` matches no file
};

// Expands the patterns (*, ?, [...]) that a shell has left, each one's files in alphabetical order.
// A name that exists is never a pattern, and a name that does not exist is left for ReadFile to
// report.
std::vector<NamedFile> ExpandFiles(const std::vector<std::string>& names);

// The contents; at most 64 MiB, which is more than a server takes as an image. Errors are one
// sentence that names the file.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace fovea::client
