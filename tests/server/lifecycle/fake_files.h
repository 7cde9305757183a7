// The files of a machine that is not this one.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "server/lifecycle/cgroup.h"

namespace fovea {

inline ReadFile FakeFiles(std::map<std::string, std::string> files) {
  return [files = std::move(files)](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return std::nullopt;
    return found->second;
  };
}

// /proc/self/mountinfo of a machine with version 2, the root of the hierarchy seen at
// /sys/fs/cgroup.
inline constexpr char kMountsV2[] =
    "24 1 0:22 / /proc rw,nosuid - proc proc rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

// Of one with version 1, where a container without a cgroup namespace sees its own cgroup.
inline constexpr char kMountsV1InContainer[] =
    "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified ro - cgroup2 cgroup2 rw\n";

}  // namespace fovea
