// std::thread at the system's limit of threads.
#pragma once

#include <system_error>

#include "base/status.h"

namespace fovea {

inline absl::Status NoThread() {
  return Unavailable("server.no_thread", "the system has no thread left (ulimit -u, pids.max)");
}

// Calls `start`, which starts threads. UNAVAILABLE server.no_thread where the system has none left;
// threads that had been started by then are their owner's to join.
template <typename Start>
absl::Status StartThreads(Start start) {
  try {
    start();
  } catch (const std::system_error&) {
    return NoThread();
  }
  return absl::OkStatus();
}

}  // namespace fovea
