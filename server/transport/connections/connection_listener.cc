#include "server/transport/connections/connection_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/files_for_callers.h"
#include "server/core/log.h"
#include "server/core/start_threads.h"

namespace fovea {
namespace {

constexpr int kPauseMs = 100;  // while the system has no room for a connection

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionListener>> ConnectionListener::Listen(
    const std::string& host, int port, std::string_view port_flag) {
  FOVEA_ASSIGN_OR_RETURN(ListeningSockets listening, fovea::Listen(host, port, port_flag));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) {
    return Unavailable("server.no_file",
                       "the system has no file left for one of the server's ports");
  }
  return std::unique_ptr<ConnectionListener>(
      new ConnectionListener(std::move(listening), std::move(wake)));
}

absl::Status ConnectionListener::Start(Handler handler) {
  return StartThreads(
      [&] { thread_ = std::thread([this, handler = std::move(handler)] { Run(handler); }); });
}

void ConnectionListener::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    while (write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
    thread_.join();
  }
  listening_.sockets.clear();
}

void ConnectionListener::Run(const Handler& handler) {
  std::vector<pollfd> ready = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  for (const ListeningSockets::Socket& socket : listening_.sockets) {
    ready.push_back({.fd = socket.file.get(), .events = POLLIN, .revents = 0});
  }
  bool room = true;
  for (;;) {
    // Where there is no room, only a stop is waited for.
    poll(ready.data(), room ? ready.size() : 1, room ? -1 : kPauseMs);
    if (ready[0].revents != 0) break;
    const bool paused = !std::exchange(room, true);
    for (size_t i = 1; i < ready.size(); ++i) {
      if (paused || ready[i].revents != 0) room &= AcceptOne(ready[i].fd, handler);
    }
  }
  // Closing the port resets who is connected and not accepted: nobody told them that the server
  // ends. As many as may wait at once, so that callers cannot hold up the end.
  const std::span<pollfd> sockets = std::span(ready).subspan(1);
  for (int i = 0; i < SOMAXCONN && room; ++i) {
    if (poll(sockets.data(), sockets.size(), 0) <= 0) return;
    for (const pollfd& socket : sockets) {
      if (socket.revents != 0) room &= AcceptOne(socket.fd, handler);
    }
  }
}

bool ConnectionListener::AcceptOne(int socket, const Handler& handler) {
  FileDescriptor connection(accept4(socket, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.get() < 0) {
    // Of the others one is about this connection, or it came to nothing: the next may do.
    return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  }
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  // It has gone again, of which gRPC would write a line for each.
  if (getpeername(connection.get(), reinterpret_cast<sockaddr*>(&peer), &length) != 0) return true;
  if (connection.get() >= FilesForCallers()) {
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
