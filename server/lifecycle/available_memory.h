// How much memory the process can still get.
#pragma once

#include <cstdint>
#include <optional>

#include "server/lifecycle/cgroup.h"

namespace fovea {

// Bytes: the least of what the machine has available and what the process's cgroup, and those above
// it, leave below their limits. Nothing where no file says it.
std::optional<int64_t> FindAvailableMemory(const ReadFile& read = ReadRealFile);

}  // namespace fovea
