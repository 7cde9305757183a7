#include "server/core/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/quote.h"

namespace fovea {
namespace {

constexpr int kPortsTried = 10;

void Enable(int socket, int level, int option) {
  const int on = 1;
  setsockopt(socket, level, option, &on, sizeof(on));
}

sockaddr_storage WithPort(const addrinfo& address, int port) {
  sockaddr_storage with_port{};
  std::memcpy(&with_port, address.ai_addr, address.ai_addrlen);
  const uint16_t bytes = htons(static_cast<uint16_t>(port));
  if (address.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(with_port).sin6_port = bytes;
  } else {
    reinterpret_cast<sockaddr_in&>(with_port).sin_port = bytes;
  }
  return with_port;
}

// 0, or why nobody can listen there.
int ListenOn(const addrinfo& address, int port, FileDescriptor* file) {
  const sockaddr_storage at = WithPort(address, port);
  *file = FileDescriptor(
      socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (file->get() < 0) return errno;
  Enable(file->get(), SOL_SOCKET, SO_REUSEADDR);
  Enable(file->get(), IPPROTO_TCP, TCP_NODELAY);  // the connections inherit it
  if (address.ai_family == AF_INET6) Enable(file->get(), IPPROTO_IPV6, IPV6_V6ONLY);
  const bool listens =
      bind(file->get(), reinterpret_cast<const sockaddr*>(&at), address.ai_addrlen) == 0 &&
      listen(file->get(), SOMAXCONN) == 0;
  return listens ? 0 : errno;
}

// Whether a name's list has the same address before.
bool ListedBefore(const addrinfo* list, const addrinfo& address) {
  for (; list != &address; list = list->ai_next) {
    if (list->ai_addrlen == address.ai_addrlen &&
        std::memcmp(list->ai_addr, address.ai_addr, address.ai_addrlen) == 0) {
      return true;
    }
  }
  return false;
}

bool IsOfAnotherMachine(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

// On every address of `list` that this machine has, all at the port that the first one got. 0, or
// why not.
int ListenOnAll(const addrinfo* list, ListeningSockets* listening) {
  int left_out = EADDRNOTAVAIL;
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    if (address->ai_family != AF_INET && address->ai_family != AF_INET6) continue;
    if (ListedBefore(list, *address)) continue;
    FileDescriptor file;
    const int error = ListenOn(*address, listening->port, &file);
    if (IsOfAnotherMachine(error)) {
      left_out = error;
      continue;
    }
    if (error != 0) return error;
    listening->port = PortOf(file.get());
    listening->sockets.push_back({std::move(file), address->ai_family == AF_INET6});
  }
  return listening->sockets.empty() ? left_out : 0;
}

absl::Status Refused(int error, const std::string& host, int port, const std::string& flag) {
  switch (error) {
    case EADDRINUSE:
      return Unavailable(
          "server.port_taken",
          absl::StrCat("another program listens on port ", port, " of ", host,
                       ": stop it, or give another port with ", flag, " (0 takes a free one)"));
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
      return Unavailable("server.not_our_address",
                         absl::StrCat(host,
                                      " is not an address of this machine: give one that is "
                                      "with --host, or 0.0.0.0 for every interface"));
    case EACCES:
      return Unavailable("server.port_forbidden",
                         absl::StrCat("this user may not listen on port ", port,
                                      ": give one above 1023 with ", flag));
    default:
      return Unavailable("server.cannot_listen",
                         absl::StrCat("cannot listen on port ", port, " of ", host, " (",
                                      strerrorname_np(error), ")"));
  }
}

}  // namespace

int PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return -1;
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return -1;
}

absl::StatusOr<ListeningSockets> Listen(const std::string& host, int port,
                                        std::string_view port_flag) {
  const std::string flag(port_flag);
  std::string name = host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
    name = name.substr(1, name.size() - 2);  // IPv6
  }
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) {
    return InvalidArgument("server.host",
                           absl::StrCat("--host ", InQuotes(host),
                                        " is no address and no name that resolves to one: give an "
                                        "address of this machine, or 0.0.0.0 for every interface"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  // A port that is free at the first address may be taken at the next.
  for (int tries = port == 0 ? kPortsTried : 1;; --tries) {
    ListeningSockets listening{.sockets = {}, .port = port};
    const int error = ListenOnAll(found, &listening);
    if (error == 0) return listening;
    if (error != EADDRINUSE || tries == 1) return Refused(error, host, listening.port, flag);
  }
}

}  // namespace fovea
