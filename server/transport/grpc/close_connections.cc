#include "server/transport/grpc/close_connections.h"

#include <dirent.h>
#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpc/support/alloc.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "base/file_descriptor.h"
#include "base/limits.h"
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

void ForEachConnection(int port, absl::FunctionRef<void(int file)> visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> files(opendir("/proc/self/fd"), closedir);
  if (files == nullptr) return;
  while (const dirent* const entry = readdir(files.get())) {
    int file;
    if (absl::SimpleAtoi(entry->d_name, &file) && LocalPort(file) == port) visit(file);
  }
}

// The other end of a connection, as channelz writes it: the address's bytes in base64, and the
// port.
using Peer = std::pair<std::string, int>;

Peer PeerOf(int file) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(file, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  const auto make = [](const auto& host, in_port_t port) {
    const absl::string_view bytes(reinterpret_cast<const char*>(&host), sizeof(host));
    return Peer(absl::Base64Escape(bytes), ntohs(port));
  };
  if (address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    return make(ipv4.sin_addr, ipv4.sin_port);
  }
  const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
  return make(ipv6.sin6_addr, ipv6.sin6_port);
}

// An answer of channelz, gRPC's own list of its connections. It writes 64-bit numbers as strings,
// and omits those that are zero.
nlohmann::json ReadChannelz(char* answer) {
  const std::unique_ptr<char, void (*)(void*)> text(answer, gpr_free);
  auto json = nlohmann::json::parse(answer == nullptr ? "{}" : answer, nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

int64_t Number(const nlohmann::json& json, const char* pointer) {
  const nlohmann::json::json_pointer at(pointer);
  if (!json.contains(at)) return 0;
  if (json[at].is_number_integer()) return json[at].get<int64_t>();
  int64_t number = 0;
  return json[at].is_string() && absl::SimpleAtoi(json[at].get<std::string>(), &number) ? number
                                                                                        : 0;
}

// Calls `visit` for each element of a list that `ask` returns in pages, each from a number on.
void ForEachPage(absl::FunctionRef<char*(intptr_t start)> ask, const char* list, const char* number,
                 absl::FunctionRef<void(intptr_t)> visit) {
  for (intptr_t start = 0;;) {
    const nlohmann::json page = ReadChannelz(ask(start));
    if (!page.contains(list) || page[list].empty()) return;
    for (const nlohmann::json& one : page[list]) {
      start = Number(one, number) + 1;
      visit(start - 1);
    }
    if (page.value("end", false)) return;
  }
}

std::vector<Peer> CrowdedPeers(int port, int64_t calls) {
  std::vector<Peer> peers;
  ForEachPage(grpc_channelz_get_servers, "server", "/ref/serverId", [&](intptr_t server) {
    const auto sockets = [server](intptr_t start) {
      return grpc_channelz_get_server_sockets(server, start, 0);
    };
    ForEachPage(sockets, "socketRef", "/socketId", [&](intptr_t socket) {
      const nlohmann::json json = ReadChannelz(grpc_channelz_get_socket(socket));
      const int64_t open = Number(json, "/socket/data/streamsStarted") -
                           Number(json, "/socket/data/streamsSucceeded") -
                           Number(json, "/socket/data/streamsFailed");
      const nlohmann::json::json_pointer remote("/socket/remote/tcpip_address");
      if (open <= calls || Number(json, "/socket/local/tcpip_address/port") != port ||
          !json.contains(remote)) {
        return;
      }
      peers.emplace_back(json[remote].value("ip_address", ""), Number(json[remote], "/port"));
    });
  });
  return peers;
}

// Bytes that have arrived unread would still be read before the end of the connection, with all
// the calls that they open.
void Discard(int file) {
  char byte;
  while (recv(file, &byte, limits::kMiB, MSG_TRUNC | MSG_DONTWAIT) > 0) {
  }
}

}  // namespace

void CloseConnections(int port) {
  // gRPC, which owns the file, reads its end and closes it.
  ForEachConnection(port, [](int file) { shutdown(file, SHUT_RDWR); });
}

int CloseCrowdedConnections(int port, int64_t calls) {
  const std::vector<Peer> peers = CrowdedPeers(port, calls);
  int closed = 0;
  if (peers.empty()) return closed;
  ForEachConnection(port, [&](int file) {
    // Works on a duplicate: gRPC may close its own descriptor, whose number is then reused.
    const FileDescriptor connection(fcntl(file, F_DUPFD_CLOEXEC, 0));
    if (LocalPort(connection.get()) != port ||
        std::ranges::find(peers, PeerOf(connection.get())) == peers.end()) {
      return;
    }
    shutdown(connection.get(), SHUT_RDWR);
    Discard(connection.get());
    ++closed;
  });
  return closed;
}

}  // namespace fovea
