#include "client/cpp/cli/files.h"

#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace fovea::client {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr size_t kMaxNameBytes = 4096;  // PATH_MAX

bool Exists(const std::string& path) {
  struct stat facts;
  return ::lstat(path.c_str(), &facts) == 0;
}

bool IsDirectory(const std::string& path) {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

absl::Status CannotBeRead(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("cannot be read: ", why));
}

void AddFolder(const std::filesystem::path& folder, std::vector<NamedFile>& files,
               FilesLeftOut* left_out) {
  std::error_code error;
  std::vector<std::filesystem::directory_entry> entries;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    entries.push_back(*entry);
  }
  if (error) {
    files.push_back({folder, CannotBeRead(error.message())});
    return;
  }
  std::sort(entries.begin(), entries.end());
  for (const auto& entry : entries) {
    if (entry.path().filename().string().starts_with('.')) continue;
    std::error_code gone;
    if (entry.is_directory(gone)) {
      if (!entry.is_symlink(gone)) AddFolder(entry.path(), files, left_out);
    } else if (IsPicture(entry.path())) {
      files.push_back({entry.path(), absl::OkStatus()});
    } else {
      left_out->Add(entry.path());
    }
  }
}

void AddName(const std::string& name, std::vector<NamedFile>& files, FilesLeftOut* left_out) {
  if (!IsDirectory(name)) {
    files.push_back({name, absl::OkStatus()});
    return;
  }
  const size_t before = files.size();
  AddFolder(name, files, left_out);
  if (files.size() == before) {
    files.push_back({name, absl::NotFoundError("no picture is in this folder")});
  }
}

}  // namespace

std::vector<NamedFile> ExpandFiles(const std::vector<std::string>& names, FilesLeftOut* left_out) {
  std::vector<NamedFile> files;
  for (const std::string& name : names) {
    if (name.find_first_of("*?[") == std::string::npos || Exists(name)) {
      AddName(name, files, left_out);
      continue;
    }
    glob_t matches;
    const int outcome = ::glob(name.c_str(), 0, nullptr, &matches);
    if (outcome == 0) {
      for (size_t i = 0; i < matches.gl_pathc; ++i) AddName(matches.gl_pathv[i], files, left_out);
    } else {
      files.push_back({name, absl::NotFoundError("no file matches this pattern")});
    }
    ::globfree(&matches);
  }
  return files;
}

absl::StatusOr<Input> Input::Open(const std::string& path, int stop) {
  if (path != "-" && IsDirectory(path)) return CannotBeRead("it is a folder");
  const int descriptor = path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                     : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return CannotBeRead(std::strerror(errno));
  return Input(descriptor, stop);
}

Input::~Input() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Input::Input(Input&& other)
    : descriptor_(std::exchange(other.descriptor_, -1)), stop_(other.stop_) {}

absl::StatusOr<size_t> Input::Read(char* buffer, size_t size) {
  pollfd ready[] = {{.fd = descriptor_, .events = POLLIN}, {.fd = stop_, .events = POLLIN}};
  while (true) {
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) return CannotBeRead(std::strerror(errno));
    if (ready[1].revents != 0) return absl::CancelledError("interrupted");
    if (ready[0].revents == 0) continue;
    const ssize_t count = ::read(descriptor_, buffer, size);
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) return CannotBeRead(std::strerror(errno));
  }
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int stop) {
  auto input = Input::Open(path, stop);
  if (!input.ok()) return input.status();
  std::string contents;
  char buffer[64 << 10];
  // Not sized in advance: pipes and devices have no size.
  while (true) {
    const auto count = input->Read(buffer, sizeof(buffer));
    if (!count.ok()) return count.status();
    if (*count == 0) return contents;
    contents.append(buffer, *count);
    if (contents.size() > kMaxFileBytes) return CannotBeRead("it is larger than 64 MiB");
  }
}

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream stream(path, std::ios::binary);
  const bool opened = stream.is_open();  // otherwise the existing file is not ours to remove
  stream << bytes << std::flush;
  if (stream) return absl::OkStatus();
  const absl::Status status =
      absl::InvalidArgumentError(absl::StrCat(path, " cannot be written: ", std::strerror(errno)));
  std::error_code unknown;
  if (opened && std::filesystem::is_regular_file(path, unknown)) {
    std::filesystem::remove(path, unknown);
  }
  return status;
}

absl::StatusOr<FileList> FileList::Open(const std::vector<std::string>& names,
                                        const std::string& list, int stop) {
  FilesLeftOut left_out;
  FileList files(ExpandFiles(names, &left_out));
  files.left_out_ = left_out.Line();
  if (!list.empty()) {
    auto input = Input::Open(list, stop);
    if (!input.ok()) {
      return absl::Status(input.status().code(),
                          absl::StrCat(list, ": ", input.status().message()));
    }
    files.list_.emplace(*std::move(input));
    files.list_ended_ = false;
  }
  return files;
}

std::optional<NamedFile> FileList::Next() {
  std::optional<NamedFile> file = given_ < files_.size() ? std::move(files_[given_]) : NextLine();
  if (file) ++given_;
  return file;
}

std::optional<NamedFile> FileList::NextLine() {
  while (list_) {
    const size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      if (!line.empty()) return NamedFile{std::move(line), absl::OkStatus()};
      continue;
    }
    char buffer[4096];
    const auto count = list_->Read(buffer, sizeof(buffer));
    absl::Status problem = count.status();
    if (problem.ok() && *count > 0) {
      unread_.append(buffer, *count);
      if (unread_.find('\n') != std::string::npos || unread_.size() <= kMaxNameBytes) continue;
      problem = absl::InvalidArgumentError("no file name is so long: is this a list of names?");
      unread_.resize(60);
    }
    list_.reset();
    if (absl::IsCancelled(problem)) return std::nullopt;
    list_ended_ = true;
    if (!problem.ok()) return NamedFile{unread_.empty() ? "the list" : unread_, problem};
    if (!unread_.empty()) return NamedFile{std::exchange(unread_, ""), absl::OkStatus()};
  }
  return std::nullopt;
}

std::optional<size_t> FileList::size() const {
  if (!list_ended_) return std::nullopt;
  return std::max(given_, files_.size());
}

}  // namespace fovea::client
