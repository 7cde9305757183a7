// Weights that a caller sends with a load: a repository in memory, of which no disk knows.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sent_file.h"
#include "model_zoo/folder/repository_fs.h"

namespace fovea {

// A repository that holds the folder of `model` with those versions' weights and nothing else. They
// lie in memory of the kernel's, where nobody can change them, until it is destroyed; each file's
// bytes are let go of as soon as they are there. INVALID_ARGUMENT repository.file_name: a name that
// is no "<version>/model.safetensors", twice the same, or more than limits::kMaxSentFiles;
// UNAVAILABLE repository.io: the system has no room.
absl::StatusOr<std::unique_ptr<RepositoryFs>> MakeSentFiles(std::string_view model,
                                                            std::vector<SentFile> files);

}  // namespace fovea
