#include "server/transport/connection_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/limits.h"
#include "server/core/log.h"
#include "server/core/status.h"

namespace fovea {
namespace {

constexpr int kPauseMs = 100;  // while the system has no room for a connection

absl::Status CannotListen(const std::string& host, int port, std::string_view why) {
  return Unavailable("server.port",
                     absl::StrCat("cannot listen on ", host, ":", port, ": ", std::string(why)));
}

std::string_view WhyNot(int error) {
  switch (error) {
    case EADDRINUSE:
      return "another program has the port";
    case EADDRNOTAVAIL:
      return "this machine has no such address";
    case EACCES:
      return "this user may not take the port";
    default:
      return "the system refuses it";
  }
}

void Enable(int socket, int level, int option) {
  const int on = 1;
  setsockopt(socket, level, option, &on, sizeof(on));
}

int PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// The system gives a new descriptor the lowest number that is free: one as high as this tells that
// all below are in use.
int FirstReservedFile() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const auto most = static_cast<int>(std::min<rlim_t>(files.rlim_cur, INT32_MAX));
  return std::max(most / 2, most - limits::kReservedFiles);
}

}  // namespace

ConnectionListener::Descriptor::Descriptor(Descriptor&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

ConnectionListener::Descriptor& ConnectionListener::Descriptor::operator=(
    Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

ConnectionListener::Descriptor::~Descriptor() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::unique_ptr<ConnectionListener>> ConnectionListener::Listen(
    const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return CannotListen(host, port, "no address is known for this host");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  std::unique_ptr<ConnectionListener> listener(new ConnectionListener);
  listener->port_ = port;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Descriptor taken(
        socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    // Where one of a name's addresses is of a kind that the machine does not have, the others do.
    if (taken.get() < 0) continue;
    Enable(taken.get(), SOL_SOCKET, SO_REUSEADDR);
    Enable(taken.get(), IPPROTO_TCP, TCP_NODELAY);  // the connections inherit it
    if (address->ai_family == AF_INET6) Enable(taken.get(), IPPROTO_IPV6, IPV6_V6ONLY);
    // All addresses have the port that the first one got.
    const auto port_bytes = htons(static_cast<uint16_t>(listener->port_));
    if (address->ai_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6*>(address->ai_addr)->sin6_port = port_bytes;
    } else {
      reinterpret_cast<sockaddr_in*>(address->ai_addr)->sin_port = port_bytes;
    }
    if (bind(taken.get(), address->ai_addr, address->ai_addrlen) != 0 ||
        listen(taken.get(), SOMAXCONN) != 0) {
      return CannotListen(host, port, WhyNot(errno));
    }
    listener->port_ = PortOf(taken.get());
    listener->sockets_.push_back(std::move(taken));
  }
  listener->wake_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (listener->sockets_.empty() || listener->wake_.get() < 0) {
    return CannotListen(host, port, "the system refuses it");
  }
  return listener;
}

absl::Status ConnectionListener::Start(Handler handler) {
  try {
    thread_ = std::thread([this, handler = std::move(handler)] { Run(handler); });
  } catch (const std::system_error&) {
    return Unavailable("server.no_thread", "the system has no thread left for the server's port");
  }
  return absl::OkStatus();
}

void ConnectionListener::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    while (write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  sockets_.clear();
}

void ConnectionListener::Run(const Handler& handler) {
  std::vector<pollfd> ready = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  for (const Descriptor& socket : sockets_) {
    ready.push_back({.fd = socket.get(), .events = POLLIN, .revents = 0});
  }
  bool room = true;
  for (;;) {
    // Where there is no room, only a stop is waited for.
    poll(ready.data(), room ? ready.size() : 1, room ? -1 : kPauseMs);
    if (ready[0].revents != 0) return;
    const bool paused = !std::exchange(room, true);
    for (size_t i = 1; i < ready.size(); ++i) {
      if (paused || ready[i].revents != 0) room &= AcceptOne(ready[i].fd, handler);
    }
  }
}

bool ConnectionListener::AcceptOne(int socket, const Handler& handler) {
  Descriptor connection(accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.get() < 0) {
    // Of the others one is about this connection, or it came to nothing: the next may do.
    return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  }
  if (connection.get() >= FirstReservedFile()) {
    // A caller must not be able to fill the log either.
    if (std::has_single_bit(++refused_)) {
      Log(LogLevel::kWarning,
          absl::StrCat(refused_,
                       " connections refused so far: the process is at its limit of open "
                       "files (ulimit -n)"));
    }
    return true;
  }
  handler(connection.Release());
  return true;
}

}  // namespace fovea
