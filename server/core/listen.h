// Sockets that listen: what --host and a port stand for.
//
// In core, because gRPC's end of connections and the listener ask for ports by the same rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.h"

namespace fovea {

struct ListeningSockets {
  struct Socket {
    FileDescriptor file;  // non-blocking; its connections have TCP_NODELAY
    bool ipv6 = false;
  };
  std::vector<Socket> sockets;  // at least one
  int port = 0;                 // of all of them
};

// Listens on every address of this machine that `host` stands for: an address, IPv6 also in
// brackets, or a name. Port 0: any free one. Those that the machine does not have are left out
// where another listens. `port_flag` is the flag that gave the port ("--grpc-port"), for the error,
// which says what to do. INVALID_ARGUMENT server.host: no such host; UNAVAILABLE: the host is no
// address of this machine, or the port is taken or forbidden. Blocks as long as resolving a name
// does.
absl::StatusOr<ListeningSockets> Listen(const std::string& host, int port,
                                        std::string_view port_flag);

// The port at this end of an IP socket; -1 where `socket` is none.
int PortOf(int socket);

}  // namespace fovea
