#include "client/cpp/cli/files.h"

#include <glob.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace fovea::client {
namespace {

constexpr size_t kMaxFileBytes = size_t{64} << 20;

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

}  // namespace

std::vector<NamedFile> ExpandFiles(const std::vector<std::string>& names) {
  std::vector<NamedFile> files;
  for (const std::string& name : names) {
    if (name.find_first_of("*?[") == std::string::npos || Exists(name)) {
      files.push_back({name, absl::OkStatus()});
      continue;
    }
    glob_t matches;
    const int outcome = ::glob(name.c_str(), 0, nullptr, &matches);
    if (outcome == 0) {
      for (size_t i = 0; i < matches.gl_pathc; ++i) {
        files.push_back({matches.gl_pathv[i], absl::OkStatus()});
      }
    } else {
      files.push_back({name, absl::NotFoundError("no file matches this pattern")});
    }
    ::globfree(&matches);
  }
  return files;
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (IsDirectory(path)) return CannotBeRead("it is a folder");
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                       &std::fclose);
  if (!file) return CannotBeRead(std::strerror(errno));
  std::string contents;
  char buffer[64 << 10];
  // Not sized in advance: pipes and devices have no size.
  while (const size_t read = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    contents.append(buffer, read);
    if (contents.size() > kMaxFileBytes) return CannotBeRead("it is larger than 64 MiB");
  }
  if (std::ferror(file.get())) return CannotBeRead(std::strerror(errno));
  return contents;
}

}  // namespace fovea::client
