// --pre-stop: what Kubernetes runs in a container before it stops the server there.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <vector>

namespace fovea {

// The processes of the program file `program` that wait for SIGUSR1, as a server does from its
// first thread on and no other use of the program. `proc`: where the kernel lists processes.
std::vector<pid_t> FindServers(const std::filesystem::path& program,
                               const std::filesystem::path& proc = "/proc");

// Sends SIGUSR1 to the one server that runs here: its health reads NOT_SERVING from then on, and it
// goes on answering. Returns after `drain_delay_ms`, or when the server has ended. The exit code:
// 0, or 1 where there is no server, or more than one, which has been told on standard error.
int RunPreStop(int drain_delay_ms);

}  // namespace fovea
