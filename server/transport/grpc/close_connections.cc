#include "server/transport/grpc/close_connections.h"

#include <dirent.h>
#include <sys/socket.h>

#include <memory>

#include "absl/strings/numbers.h"
#include "server/core/listen.h"

namespace fovea {
namespace {

// The port at this end of a connection; -1 where `file` is none.
int LocalPort(int file) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens != 0) return -1;
  return PortOf(file);
}

}  // namespace

void CloseConnections(int port) {
  const std::unique_ptr<DIR, int (*)(DIR*)> files(opendir("/proc/self/fd"), closedir);
  if (files == nullptr) return;
  while (const dirent* const entry = readdir(files.get())) {
    int file;
    if (!absl::SimpleAtoi(entry->d_name, &file)) continue;
    // gRPC, which owns the file, reads its end and closes it.
    if (LocalPort(file) == port) shutdown(file, SHUT_RDWR);
  }
}

}  // namespace fovea
