// The server's port: accepts connections and hands them on.
//
// gRPC has a listener of its own, but that of release 1.51 gives its port up for good as soon as
// one connection cannot be accepted, which whoever opens more connections than the process may have
// files brings about (CVE-2023-4785).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace fovea {

// Not thread-safe. States: listening (connections wait), accepting, stopped.
class ConnectionListener {
 public:
  // Takes a connected socket over; non-blocking. Called on the listener's thread; returns quickly.
  using Handler = std::function<void(int connection)>;

  // Listens on every address that `host` stands for. Port 0: any free one. UNAVAILABLE: the name is
  // nobody's, or the port cannot be had; the message says which.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Listen(const std::string& host,
                                                                    int port);
  ~ConnectionListener() { Stop(); }

  int port() const { return port_; }

  // From now on every connection goes to `handler`; once. A connection that would leave the process
  // fewer than limits::kReservedFiles file descriptors is closed instead. UNAVAILABLE: no thread.
  absl::Status Start(Handler handler);
  // Accepts no more, and gives the port up. Later calls do nothing.
  void Stop();

 private:
  // A file descriptor that is closed with its owner.
  class Descriptor {
   public:
    explicit Descriptor(int fd = -1) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept;
    Descriptor& operator=(Descriptor&& other) noexcept;
    ~Descriptor();
    int get() const { return fd_; }
    int Release() { return std::exchange(fd_, -1); }

   private:
    int fd_;
  };

  ConnectionListener() = default;
  void Run(const Handler& handler);
  // False where the system has no room for a connection just now.
  bool AcceptOne(int socket, const Handler& handler);

  std::vector<Descriptor> sockets_;
  Descriptor wake_;  // readable: stop
  int port_ = 0;
  uint64_t refused_ = 0;  // connections; the thread's
  std::thread thread_;
};

}  // namespace fovea
