#include "server/transport/close_connections.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>

namespace fovea {
namespace {

// The port at this end of a connection; -1 where `file` is none.
int LocalPort(int file) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens != 0) return -1;
  sockaddr_storage address{};
  size = sizeof(address);
  if (getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return -1;
}

}  // namespace

void CloseConnections(int port) {
  const std::unique_ptr<DIR, int (*)(DIR*)> files(opendir("/proc/self/fd"), closedir);
  if (files == nullptr) return;
  while (const dirent* const entry = readdir(files.get())) {
    const int file = std::atoi(entry->d_name);
    // gRPC, which owns the file, reads its end and closes it.
    if (LocalPort(file) == port) shutdown(file, SHUT_RDWR);
  }
}

}  // namespace fovea
