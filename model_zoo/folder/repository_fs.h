// The files of one repository folder, and nothing outside it. An interface, so that tests can break
// the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace fovea {

// Which file it is, and in which state: what changes when it is written or replaced.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t size = 0;
  int64_t modified_ns = 0, changed_ns = 0;

  bool operator==(const FileIdentity&) const = default;
};

// An open regular file. Thread-safe.
class RepositoryFile {
 public:
  virtual ~RepositoryFile() = default;

  // As it is now.
  virtual absl::StatusOr<FileIdentity> Identity() const = 0;
  // Up to `count` bytes from `offset`; fewer only at the file's end.
  virtual absl::StatusOr<std::string> Read(int64_t offset, size_t count) const = 0;
  // Opens this very file, whatever has happened to its name since; valid as long as this object
  // lives.
  virtual std::filesystem::path path() const = 0;
};

struct FolderEntry {
  // kBadLink: leads to a folder outside of the repository, or nowhere.
  enum class Kind { kFolder, kFile, kBadLink, kOther };
  std::string name;
  Kind kind = Kind::kOther;
};

// `name` is for errors.
std::unique_ptr<RepositoryFile> MakeRepositoryFile(FileDescriptor file, std::string name);

// Paths are relative to the repository's folder, with '/' between the parts. Thread-safe.
// NOT_FOUND: nothing of this name; FAILED_PRECONDITION: not a regular file of the repository (a way
// out of it, a link that leads nowhere, a pipe, a device, a file with a second name) or not for the
// server to read; UNAVAILABLE: the disk failed, try again.
class RepositoryFs {
 public:
  virtual ~RepositoryFs() = default;

  // The repository's folder as the operator called it: for the start and the log, never for
  // callers.
  virtual std::string where() const = 0;

  // What lies in a folder ("": the repository itself), by name; names that begin with a dot are
  // left out.
  virtual absl::StatusOr<std::vector<FolderEntry>> List(std::string_view folder) const = 0;
  virtual absl::StatusOr<std::unique_ptr<RepositoryFile>> Open(std::string_view path) const = 0;
};

// The real one. The folder is opened anew for each call, so that a repository that was replaced or
// mounted again is seen. Links are followed only while they stay inside, and only relative ones.
// Where openat2 is missing, or a sandbox forbids it, the same is done link by link.
std::unique_ptr<RepositoryFs> MakeRepositoryFs(std::filesystem::path root, bool use_openat2 = true);

// Whether a folder can be a repository. The message names it, and says what to give instead.
absl::Status CheckRepository(const RepositoryFs& fs);

// The whole file. FAILED_PRECONDITION where it is longer than `max_bytes`; UNAVAILABLE where it
// changed meanwhile.
struct FileContent {
  std::string bytes;
  FileIdentity identity;
};
absl::StatusOr<FileContent> ReadWhole(const RepositoryFs& fs, std::string_view path,
                                      int64_t max_bytes);

}  // namespace fovea
