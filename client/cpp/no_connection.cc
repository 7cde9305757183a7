#include "client/cpp/no_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace fovea::client {
namespace {

constexpr int kPatienceMs = 1000;

// 0 where something listens, the error otherwise.
int TryToConnect(const addrinfo& target) {
  const int socket =
      ::socket(target.ai_family, target.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return errno;
  int error = ::connect(socket, target.ai_addr, target.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd done{.fd = socket, .events = POLLOUT};
    socklen_t size = sizeof(error);
    if (::poll(&done, 1, kPatienceMs) <= 0) {
      error = ETIMEDOUT;
    } else if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  ::close(socket);
  return error;
}

}  // namespace

std::string WhyNoConnection(const std::string& address) {
  if (address.find('/') != std::string::npos) {  // a target as gRPC writes them
    return absl::StrCat("no server answers at ", address, ": is fovea-server running there?");
  }
  const size_t colon = address.rfind(':');
  const std::string port = address.substr(colon + 1);
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");

  const addrinfo wanted{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  addrinfo* found = nullptr;
  if (const int unknown = ::getaddrinfo(std::string(host).c_str(), port.c_str(), &wanted, &found)) {
    return absl::StrCat("the host '", host, "' cannot be found (", ::gai_strerror(unknown),
                        "): is it spelt right?");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, &::freeaddrinfo);
  int error = ECONNREFUSED;
  for (const addrinfo* target = found; target != nullptr && error != 0; target = target->ai_next) {
    error = TryToConnect(*target);
  }
  switch (error) {
    case 0:
      return absl::StrCat(address,
                          " does not speak gRPC: is it another of the server's ports (gRPC's "
                          "default is 8001), or does it need TLS?");
    case ECONNREFUSED:
      return absl::StrCat("nothing listens at ", address, ": is fovea-server running there?");
    default:
      return absl::StrCat(address, " cannot be reached (", std::strerror(error),
                          "): is it the right host, and no firewall between?");
  }
}

}  // namespace fovea::client
