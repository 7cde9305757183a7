// The server from its first thread to its last.
#pragma once

#include "server/lifecycle/options.h"

namespace fovea {

// Starts, serves until SIGTERM or SIGINT, drains, and returns the exit code of the process: 0 when
// every accepted request was answered, 1 when some were cut off or the server could not start. A
// second signal ends the process, and so does the drain's time when something hangs beyond it.
// BlockSignals has been called, and no other thread was started yet.
int RunServer(const ServerOptions& options);

}  // namespace fovea
