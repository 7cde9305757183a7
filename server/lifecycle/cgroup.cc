#include "server/lifecycle/cgroup.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/str_split.h"

namespace fovea {
namespace {

using Fields = std::vector<std::string>;

bool Holds(std::string_view list, std::string_view word) {
  const Fields words = absl::StrSplit(absl::string_view(list.data(), list.size()), ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "\040" -> " ", as the kernel writes paths in mountinfo.
std::string Unescaped(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, 3);
    const bool octal = text[i] == '\\' && digits.size() == 3 &&
                       digits.find_first_not_of("01234567") == std::string_view::npos;
    if (octal) {
      plain.push_back(
          static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0')));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// The process's cgroup in a hierarchy, by /proc/self/cgroup: "4:cpu,cpuacct:/a/b" (version 1), or
// "0::/a/b" (version 2).
std::optional<std::string> PathOf(const std::string& cgroups, int version,
                                  std::string_view controller) {
  for (const auto line : absl::StrSplit(cgroups, '\n')) {
    const Fields fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (version == 2 ? fields[0] == "0" && fields[1].empty() : Holds(fields[1], controller)) {
      return fields[2];
    }
  }
  return std::nullopt;
}

// Where a hierarchy is mounted: `root` is the cgroup that is seen at `point`.
struct Mount {
  std::string root, point;
};

// proc(5), /proc/self/mountinfo: "31 23 0:28 ROOT POINT options... - TYPE source SUPEROPTIONS".
std::optional<Mount> MountOf(const std::string& mountinfo, int version,
                             std::string_view controller) {
  for (const auto line : absl::StrSplit(mountinfo, '\n')) {
    const Fields fields = absl::StrSplit(line, ' ');
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 6 || fields.end() - dash < 4) continue;
    const bool found =
        version == 2 ? dash[1] == "cgroup2" : dash[1] == "cgroup" && Holds(dash[3], controller);
    if (found) return Mount{Unescaped(fields[3]), Unescaped(fields[4])};
  }
  return std::nullopt;
}

// Where `path` lies below `root`: "/pod/box" below "/pod" is "/box". What is not below is not
// mounted here; the mount's own folder is then the nearest there is.
std::string Below(const std::string& path, const std::string& root) {
  if (root == "/") return path == "/" ? "" : path;
  const bool below =
      path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
  return below ? path.substr(root.size()) : "";
}

}  // namespace

std::optional<std::string> ReadRealFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

CgroupFolders FindCgroup(const ReadFile& read, std::string_view controller) {
  const auto cgroups = read("/proc/self/cgroup"), mountinfo = read("/proc/self/mountinfo");
  if (!cgroups || !mountinfo) return {};
  // Where both versions are mounted, a controller is in version 1's hierarchy or in neither.
  for (const int version : {1, 2}) {
    const auto path = PathOf(*cgroups, version, controller);
    const auto mount = MountOf(*mountinfo, version, controller);
    if (!path || !mount) continue;
    CgroupFolders found{.version = version};
    std::string below = Below(*path, mount->root);
    for (; !below.empty(); below.resize(below.rfind('/'))) {
      found.folders.push_back(mount->point + below);
    }
    found.folders.push_back(mount->point);
    return found;
  }
  return {};
}

}  // namespace fovea
