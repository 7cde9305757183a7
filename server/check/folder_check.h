// Everything that is wrong with a model's folder, or with a repository's, before it is served.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/repository/servable.h"

namespace fovea {

// One thing that keeps a folder, or a version in it, from being served as it is.
struct Finding {
  int64_t version = 0;   // 0: the folder as a whole
  std::string file;      // in the folder; empty where no single file is at fault
  int line = 0;          // of the file, from 1; 0: none
  std::string reason;    // the token of the error
  std::string sentence;  // names file and line too
};

struct CheckedFolder {
  std::filesystem::path path;
  std::vector<int64_t> versions;  // that the folder's policy serves; none where it cannot be read
  bool fast_decode = false;       // its JPEGs are not decoded as Pillow does
  std::vector<Finding> findings;
};

// Reads `path`, one model's folder or a repository's, as a server does, and has `factory` load each
// version that would be served, one after another. Blocks for as long as that takes. A folder for
// each model, by name; before them the repository's own where it has findings. NOT_FOUND: there is
// no such folder.
// `ask_canaries`: what `factory` makes answers requests, and each version that has a canary is
// asked.
absl::StatusOr<std::vector<CheckedFolder>> CheckFolders(const std::filesystem::path& path,
                                                        const ServableFactory& factory,
                                                        bool ask_canaries = false);

}  // namespace fovea
