#include "model_zoo/folder/repository_fs.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <utility>

#include "base/file_descriptor.h"
#include "base/status.h"

namespace fovea {
namespace {

std::string InThisProcess(const FileDescriptor& file) {
  return "/proc/self/fd/" + std::to_string(file.get());
}

// `what` is a path inside the repository.
absl::Status ErrorOf(int error, std::string_view what) {
  const std::string path = what.empty() ? "the repository" : std::string(what);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
      return NotFound("repository.not_found", path + " does not exist");
    case EXDEV:
    case ELOOP:
      return FailedPrecondition(
          "repository.escape",
          path + " leads out of the repository: a link has to be relative and stay inside it");
    case EACCES:
    case EPERM:
      return FailedPrecondition("repository.forbidden", path + " may not be read by the server");
    default: {
      const char* const name = strerrorname_np(error);
      return Unavailable("repository.io",
                         path + " cannot be read (" + (name != nullptr ? name : "?") + ")");
    }
  }
}

FileIdentity IdentityOf(const struct stat& status) {
  constexpr int64_t kSecondNs = 1'000'000'000;
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = status.st_size,
          .modified_ns = status.st_mtim.tv_sec * kSecondNs + status.st_mtim.tv_nsec,
          .changed_ns = status.st_ctim.tv_sec * kSecondNs + status.st_ctim.tv_nsec};
}

class RealFile : public RepositoryFile {
 public:
  RealFile(FileDescriptor file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}

  absl::StatusOr<FileIdentity> Identity() const override {
    struct stat status;
    if (fstat(file_.get(), &status) != 0) return ErrorOf(errno, name_);
    return IdentityOf(status);
  }

  absl::StatusOr<std::string> Read(int64_t offset, size_t count) const override {
    std::string bytes(count, '\0');
    size_t filled = 0;
    while (filled < count) {
      const ssize_t got = pread(file_.get(), bytes.data() + filled, count - filled,
                                offset + static_cast<int64_t>(filled));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrorOf(errno, name_);
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
  }

  std::filesystem::path path() const override { return InThisProcess(file_); }

 private:
  FileDescriptor file_;
  std::string name_;
};

class RealFs : public RepositoryFs {
 public:
  RealFs(std::filesystem::path root, bool use_openat2)
      : root_(std::move(root)), use_openat2_(use_openat2 && HasOpenat2()) {}

  std::string where() const override { return root_.string(); }

  absl::StatusOr<std::vector<FolderEntry>> List(std::string_view folder) const override {
    FOVEA_ASSIGN_OR_RETURN(FileDescriptor root, OpenRoot());
    FOVEA_ASSIGN_OR_RETURN(FileDescriptor opened,
                           OpenBeneath(root, folder, O_RDONLY | O_DIRECTORY));
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(fdopendir(opened.get()), closedir);
    if (directory == nullptr) return ErrorOf(errno, folder);
    opened.Release();
    std::vector<FolderEntry> entries;
    while (true) {
      errno = 0;
      const dirent* const entry = readdir(directory.get());
      if (entry == nullptr) break;
      if (entry->d_name[0] == '.') continue;
      std::string path(folder);
      if (!path.empty()) path += '/';
      path += entry->d_name;
      entries.push_back({entry->d_name, KindOf(root, path, entry->d_type)});
    }
    if (errno != 0) return ErrorOf(errno, folder);
    std::sort(entries.begin(), entries.end(),
              [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
    return entries;
  }

  absl::StatusOr<std::unique_ptr<RepositoryFile>> Open(std::string_view path) const override {
    FOVEA_ASSIGN_OR_RETURN(FileDescriptor root, OpenRoot());
    // Only looked at first: opening a device can have effects, and opening a pipe waits for its
    // other end.
    FOVEA_ASSIGN_OR_RETURN(FileDescriptor found, OpenBeneath(root, path, O_PATH));
    struct stat status;
    if (fstat(found.get(), &status) != 0) return ErrorOf(errno, path);
    if (!S_ISREG(status.st_mode)) {
      return FailedPrecondition("repository.not_a_file",
                                std::string(path) + " is not a regular file");
    }
    if (status.st_nlink > 1) {
      // The other name may lie outside, where somebody else decides what is in it.
      return FailedPrecondition("repository.escape",
                                std::string(path) + " has a second name (a hard link): copy it");
    }
    FileDescriptor file(open(InThisProcess(found).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (file.get() < 0) return ErrorOf(errno, path);
    return MakeRepositoryFile(std::move(file), std::string(path));
  }

 private:
  static bool HasOpenat2() {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_BENEATH;
    return FileDescriptor(syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how))).get() >= 0;
  }

  absl::StatusOr<FileDescriptor> OpenRoot() const {
    FileDescriptor root(open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (root.get() < 0) return ErrorOf(errno, "");
    return root;
  }

  absl::StatusOr<FileDescriptor> OpenBeneath(const FileDescriptor& root, std::string_view path,
                                             int flags) const {
    const std::string name = path.empty() ? "." : std::string(path);
    FileDescriptor found = use_openat2_ ? Openat2(root, name, flags) : Walk(root, name, flags);
    if (found.get() >= 0) return found;
    const int error = errno;
    char target;
    if (error == ENOENT && readlinkat(root.get(), name.c_str(), &target, 1) >= 0) {
      return FailedPrecondition("repository.dangling_link", name + " is a link that leads nowhere");
    }
    return ErrorOf(error, path);
  }

  static FileDescriptor Openat2(const FileDescriptor& root, const std::string& path, int flags) {
    open_how how{};
    how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    while (true) {
      const int fd =
          static_cast<int>(syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof(how)));
      // EAGAIN: a rename raced with the walk.
      if (fd >= 0 || (errno != EINTR && errno != EAGAIN)) return FileDescriptor(fd);
    }
  }

  // What openat2 does, one part at a time. The folders on the way are held open, so that ".." leads
  // back to the one before whatever is renamed meanwhile.
  static FileDescriptor Walk(const FileDescriptor& root, const std::string& path, int flags) {
    constexpr int kMostLinks = 40;  // as Linux
    const auto fail = [](int error) {
      errno = error;
      return FileDescriptor(-1);
    };
    std::vector<FileDescriptor> way;
    way.emplace_back(openat(root.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (way.back().get() < 0) return FileDescriptor(-1);
    const std::filesystem::path start(path);
    std::deque<std::filesystem::path> left(start.begin(), start.end());
    for (int links = 0; !left.empty();) {
      const std::filesystem::path part = std::move(left.front());
      left.pop_front();
      if (part.empty() || part == ".") continue;
      if (part.is_absolute()) return fail(EXDEV);
      if (part == "..") {
        if (way.size() == 1) return fail(EXDEV);
        way.pop_back();
        continue;
      }
      FileDescriptor next(openat(way.back().get(), part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      struct stat status;
      if (next.get() < 0 || fstat(next.get(), &status) != 0) return FileDescriptor(-1);
      if (!S_ISLNK(status.st_mode)) {
        way.push_back(std::move(next));
        continue;
      }
      if (++links > kMostLinks) return fail(ELOOP);
      char target[PATH_MAX];
      const ssize_t length = readlinkat(next.get(), "", target, sizeof(target));
      if (length < 0) return FileDescriptor(-1);
      if (length == sizeof(target)) return fail(ENAMETOOLONG);
      const std::filesystem::path to(std::string(target, static_cast<size_t>(length)));
      left.insert(left.begin(), to.begin(), to.end());
    }
    if ((flags & O_PATH) != 0) return std::move(way.back());
    return FileDescriptor(open(InThisProcess(way.back()).c_str(), flags | O_CLOEXEC));
  }

  FolderEntry::Kind KindOf(const FileDescriptor& root, const std::string& path,
                           unsigned char type) const {
    if (type == DT_DIR) return FolderEntry::Kind::kFolder;
    if (type == DT_REG) return FolderEntry::Kind::kFile;
    if (type != DT_LNK && type != DT_UNKNOWN) return FolderEntry::Kind::kOther;
    const absl::StatusOr<FileDescriptor> found = OpenBeneath(root, path, O_PATH);
    struct stat status;
    if (!found.ok()) {
      // Only looked at from outside: a file would not have been a model either.
      const bool leads_to_others =
          fstatat(root.get(), path.c_str(), &status, 0) == 0 && !S_ISDIR(status.st_mode);
      return leads_to_others ? FolderEntry::Kind::kOther : FolderEntry::Kind::kBadLink;
    }
    if (fstat(found->get(), &status) != 0) return FolderEntry::Kind::kOther;
    if (S_ISDIR(status.st_mode)) return FolderEntry::Kind::kFolder;
    return S_ISREG(status.st_mode) ? FolderEntry::Kind::kFile : FolderEntry::Kind::kOther;
  }

  const std::filesystem::path root_;
  const bool use_openat2_;
};

}  // namespace

std::unique_ptr<RepositoryFile> MakeRepositoryFile(FileDescriptor file, std::string name) {
  return std::make_unique<RealFile>(std::move(file), std::move(name));
}

std::unique_ptr<RepositoryFs> MakeRepositoryFs(std::filesystem::path root, bool use_openat2) {
  return std::make_unique<RealFs>(std::move(root), use_openat2);
}

absl::Status CheckRepository(const RepositoryFs& fs) {
  const absl::StatusOr<std::vector<FolderEntry>> entries = fs.List("");
  if (absl::IsNotFound(entries.status())) {
    return NotFound("repository.not_found",
                    "there is no folder " + fs.where() +
                        ": give the folder that holds the models' folders with --model-repository");
  }
  if (absl::IsFailedPrecondition(entries.status())) {
    return FailedPrecondition("repository.forbidden",
                              "the folder " + fs.where() +
                                  " may not be read by the server's user: let it list and read it");
  }
  if (!entries.ok()) {
    return MakeError(entries.status().code(), ReasonOf(entries.status()),
                     fs.where() + ": " + std::string(entries.status().message()));
  }
  for (const FolderEntry& entry : *entries) {
    if (entry.name != "model.textproto") continue;
    std::filesystem::path folder = std::filesystem::absolute(fs.where()).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();  // a slash at the end
    return FailedPrecondition("repository.is_a_model", fs.where() +
                                                           " is a model's folder; give its parent: "
                                                           "--model-repository " +
                                                           folder.parent_path().string());
  }
  return absl::OkStatus();
}

absl::StatusOr<FileContent> ReadWhole(const RepositoryFs& fs, std::string_view path,
                                      int64_t max_bytes) {
  FOVEA_ASSIGN_OR_RETURN(const std::unique_ptr<RepositoryFile> file, fs.Open(path));
  FOVEA_ASSIGN_OR_RETURN(const FileIdentity before, file->Identity());
  if (before.size > max_bytes) {
    return FailedPrecondition("repository.too_large", std::string(path) + " is longer than " +
                                                          std::to_string(max_bytes) + " bytes");
  }
  FOVEA_ASSIGN_OR_RETURN(std::string bytes, file->Read(0, static_cast<size_t>(before.size)));
  FOVEA_ASSIGN_OR_RETURN(const FileIdentity after, file->Identity());
  if (before != after || static_cast<int64_t>(bytes.size()) != before.size) {
    return Unavailable("repository.changed", std::string(path) + " changed while it was read");
  }
  return FileContent{std::move(bytes), before};
}

}  // namespace fovea
