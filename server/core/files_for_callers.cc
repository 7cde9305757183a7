#include "server/core/files_for_callers.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

#include "base/limits.h"

namespace fovea {

int FilesForCallers() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const auto most = static_cast<int>(std::min<rlim_t>(files.rlim_cur, INT32_MAX));
  return std::max(most / 2, most - limits::kReservedFiles);
}

}  // namespace fovea
