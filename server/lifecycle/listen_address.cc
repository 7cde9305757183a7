#include "server/lifecycle/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "server/core/quote.h"
#include "server/core/status.h"

namespace fovea {
namespace {

// 0, or the error of listening there for a moment.
int TryToListen(const addrinfo& address) {
  const int listener = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return errno;
  const int reuse = 1;  // as the server does: old connections of the port are no hindrance
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
  const bool listens =
      bind(listener, address.ai_addr, address.ai_addrlen) == 0 && listen(listener, 1) == 0;
  const int error = listens ? 0 : errno;
  close(listener);
  return error;
}

absl::Status Refused(int error, const std::string& host, int port, const std::string& flag) {
  switch (error) {
    case EADDRINUSE:
      return Unavailable(
          "server.port_taken",
          absl::StrCat("another program listens on port ", port, " of ", host,
                       ": stop it, or give another port with ", flag, " (0 takes a free one)"));
    case EADDRNOTAVAIL:
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

absl::Status CheckListenAddress(const std::string& host, int port, std::string_view port_flag) {
  std::string name = host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') {
    name = name.substr(1, name.size() - 2);  // IPv6
  }
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return InvalidArgument("server.host",
                           absl::StrCat("--host ", InQuotes(host),
                                        " is no address and no name that resolves to one: give an "
                                        "address of this machine, or 0.0.0.0 for every interface"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    error = TryToListen(*address);
    if (error == 0) return absl::OkStatus();
  }
  return Refused(error, host, port, std::string(port_flag));
}

}  // namespace fovea
