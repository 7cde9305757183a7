// Where the kernel says what a container may use: cgroups of version 1 and 2.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// A file's text; nothing where it cannot be read. A parameter, so that tests can be any machine.
using ReadFile = std::function<std::optional<std::string>(const std::string& path)>;
std::optional<std::string> ReadRealFile(const std::string& path);

// The folders that bound this process for a controller ("cpu", "memory"): its own cgroup's first,
// then those above it, as far up as they are mounted here. Any of them may hold the tightest bound.
struct CgroupFolders {
  int version = 2;
  std::vector<std::string> folders;  // empty where the controller is not mounted, or not readable
};
CgroupFolders FindCgroup(const ReadFile& read, std::string_view controller);

}  // namespace fovea
