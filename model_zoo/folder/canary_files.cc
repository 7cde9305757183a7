#include "model_zoo/folder/canary_files.h"

#include <memory>
#include <utility>

#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

absl::StatusOr<CanaryFile> Find(const RepositoryFs& fs, std::string_view model, int64_t version,
                                const std::string& name) {
  const std::string folder = std::string(model) + "/";
  CanaryFile found{.fs = &fs, .path = folder + std::to_string(version) + "/" + name};
  absl::StatusOr<std::unique_ptr<RepositoryFile>> file = fs.Open(found.path);
  if (absl::IsNotFound(file.status())) {
    found.path = folder + name;
    file = fs.Open(found.path);
  }
  if (absl::IsNotFound(file.status())) {
    return FailedPrecondition("canary.missing", "the canary's " + name + " does not exist");
  }
  FOVEA_RETURN_IF_ERROR(file.status());
  FOVEA_ASSIGN_OR_RETURN(found.identity, (*file)->Identity());
  if (found.identity.size > limits::kMaxCanaryFileBytes) {
    return FailedPrecondition("repository.too_large",
                              "the canary's " + name + " is longer than " +
                                  std::to_string(limits::kMaxCanaryFileBytes) + " bytes");
  }
  return found;
}

absl::StatusOr<std::string> Read(const CanaryFile& file) {
  FOVEA_ASSIGN_OR_RETURN(FileContent content,
                         ReadWhole(*file.fs, file.path, limits::kMaxCanaryFileBytes));
  if (content.identity != file.identity) {
    return Unavailable("repository.changed", file.path + " is being changed");
  }
  return std::move(content.bytes);
}

}  // namespace

absl::StatusOr<FoundCanary> FindCanary(const RepositoryFs& fs, std::string_view model,
                                       int64_t version, const CanarySpec& canary) {
  FoundCanary found;
  FOVEA_ASSIGN_OR_RETURN(found.input, Find(fs, model, version, canary.input));
  if (!canary.output_file.empty()) {
    FOVEA_ASSIGN_OR_RETURN(found.expected, Find(fs, model, version, canary.output_file));
  }
  return found;
}

absl::StatusOr<CanaryFiles> ReadCanary(const FoundCanary& found) {
  CanaryFiles files;
  FOVEA_ASSIGN_OR_RETURN(files.input, Read(found.input));
  if (found.expected) {
    FOVEA_ASSIGN_OR_RETURN(files.expected, Read(*found.expected));
  }
  return files;
}

}  // namespace fovea
