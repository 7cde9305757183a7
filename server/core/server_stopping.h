// What every part of the server says that no longer takes work.
#pragma once

#include "base/status.h"

namespace fovea {

inline absl::Status ServerStopping() {
  return Unavailable("server.draining", "the server is stopping: try another one");
}

}  // namespace fovea
