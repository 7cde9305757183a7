#include "server/lifecycle/pre_stop.h"

#include <poll.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "base/file_descriptor.h"

extern "C" {  // which glibc 2.36 does not say by itself
#include <sys/pidfd.h>
}

namespace fovea {
namespace {

// Whether the process blocks SIGUSR1: the bits of its signals are a line of its status.
bool WaitsForLeave(const std::filesystem::path& process) {
  std::ifstream status(process / "status");
  const std::string key = "SigBlk:";
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key, 0) != 0) continue;
    uint64_t blocked;
    return absl::SimpleHexAtoi(line.substr(key.size()), &blocked) &&
           (blocked >> (SIGUSR1 - 1) & 1) != 0;
  }
  return false;
}

int CannotTell(const std::string& why) {
  std::cerr << "--pre-stop: " << why << '\n';
  return 1;
}

}  // namespace

std::vector<pid_t> FindServers(const std::filesystem::path& program,
                               const std::filesystem::path& proc) {
  std::vector<pid_t> found;
  std::error_code gone;  // processes end while they are looked at
  for (const auto& entry : std::filesystem::directory_iterator(proc, gone)) {
    pid_t pid;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    // By what it is, not by its name: other programs may be called so.
    if (!std::filesystem::equivalent(entry.path() / "exe", program, gone)) continue;
    if (WaitsForLeave(entry.path())) found.push_back(pid);
  }
  return found;
}

int RunPreStop(int drain_delay_ms) {
  const std::vector<pid_t> servers = FindServers("/proc/self/exe");
  if (servers.empty()) return CannotTell("no server of this program runs here");
  if (servers.size() > 1) {
    return CannotTell(std::to_string(servers.size()) +
                      " servers of this program run here, and it is not said which one stops");
  }
  const FileDescriptor server(pidfd_open(servers[0], 0));
  if (server.get() < 0 || pidfd_send_signal(server.get(), SIGUSR1, nullptr, 0) != 0) {
    return CannotTell("the server cannot be reached: " + std::string(std::strerror(errno)));
  }
  pollfd ended{.fd = server.get(), .events = POLLIN};
  if (poll(&ended, 1, drain_delay_ms) < 0) {
    return CannotTell("cannot wait: " + std::string(std::strerror(errno)));
  }
  return 0;
}

}  // namespace fovea
