#include "model_zoo/folder/sent_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/file_descriptor.h"
#include "base/limits.h"
#include "base/status.h"
#include "model_zoo/folder/names.h"
#include "model_zoo/folder/weights_file.h"

namespace fovea {
namespace {

absl::Status NoRoom(std::string_view name) {
  return Unavailable("repository.io", "the system has no room for " + std::string(name));
}

absl::StatusOr<FileDescriptor> Write(const SentFile& file) {
  FileDescriptor memory(memfd_create("weights", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.get() < 0) return NoRoom(file.name);
  for (size_t written = 0; written < file.bytes.size();) {
    const ssize_t more =
        write(memory.get(), file.bytes.data() + written, file.bytes.size() - written);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return NoRoom(file.name);
    written += static_cast<size_t>(more);
  }
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  if (fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) return NoRoom(file.name);
  return memory;
}

class SentFiles final : public RepositoryFs {
 public:
  SentFiles(std::string model, std::map<int64_t, FileDescriptor> weights)
      : model_(std::move(model)), weights_(std::move(weights)) {}

  std::string where() const override { return "(files of a call)"; }

  absl::StatusOr<std::vector<FolderEntry>> List(std::string_view folder) const override {
    using Kind = FolderEntry::Kind;
    std::vector<FolderEntry> entries;
    if (folder.empty()) return std::vector<FolderEntry>{{model_, Kind::kFolder}};
    for (const auto& [version, file] : weights_) {
      const std::string name = std::to_string(version);
      if (folder == model_) entries.push_back({name, Kind::kFolder});
      if (folder == model_ + "/" + name)
        entries.push_back({std::string(kWeightsFile), Kind::kFile});
    }
    if (entries.empty()) return NotSent(folder);
    return entries;
  }

  absl::StatusOr<std::unique_ptr<RepositoryFile>> Open(std::string_view path) const override {
    for (const auto& [version, file] : weights_) {
      if (path != model_ + "/" + std::to_string(version) + "/" + std::string(kWeightsFile)) {
        continue;
      }
      const std::string memory = "/proc/self/fd/" + std::to_string(file.get());
      FileDescriptor opened(open(memory.c_str(), O_RDONLY | O_CLOEXEC));
      if (opened.get() < 0) return NoRoom(path);
      return MakeRepositoryFile(std::move(opened), std::string(path));
    }
    return NotSent(path);
  }

 private:
  static absl::Status NotSent(std::string_view path) {
    return NotFound("repository.not_found", std::string(path) + " was not sent");
  }

  const std::string model_;
  const std::map<int64_t, FileDescriptor> weights_;  // by version
};

// Of "<version>/model.safetensors".
std::optional<int64_t> VersionOf(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == name.npos || name.substr(slash + 1) != kWeightsFile) return std::nullopt;
  return ParseVersion(name.substr(0, slash));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RepositoryFs>> MakeSentFiles(std::string_view model,
                                                            std::vector<SentFile> files) {
  if (files.size() > limits::kMaxSentFiles) {
    return InvalidArgument(
        "repository.file_name",
        "a load comes with more than " + std::to_string(limits::kMaxSentFiles) + " files");
  }
  std::map<int64_t, FileDescriptor> weights;
  for (SentFile& file : files) {
    const std::optional<int64_t> version = VersionOf(file.name);
    if (!version) {
      return InvalidArgument("repository.file_name",
                             "a load's files are called file:<version>/model.safetensors");
    }
    if (weights.contains(*version)) {
      return InvalidArgument("repository.file_name",
                             "version " + std::to_string(*version) + " is sent twice");
    }
    FOVEA_ASSIGN_OR_RETURN(FileDescriptor written, Write(file));
    weights.emplace(*version, std::move(written));
    std::string().swap(file.bytes);
  }
  return std::make_unique<SentFiles>(std::string(model), std::move(weights));
}

}  // namespace fovea
