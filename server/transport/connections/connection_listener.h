// A port of the server: accepts connections and hands them on.
//
// gRPC has a listener of its own, but that of release 1.51 gives its port up for good as soon as
// one connection cannot be accepted, which whoever opens more connections than the process may have
// files brings about (CVE-2023-4785).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/listen.h"

namespace fovea {

// Not thread-safe. States: listening (connections wait), accepting, stopped.
class ConnectionListener {
 public:
  // Takes a connected socket over; non-blocking. Called on the listener's thread; returns quickly.
  using Handler = std::function<void(int connection)>;

  // Listens on every address that `host` stands for, as Listen in core/listen.h does, with its
  // errors; UNAVAILABLE too where the process is out of files.
  static absl::StatusOr<std::unique_ptr<ConnectionListener>> Listen(const std::string& host,
                                                                    int port,
                                                                    std::string_view port_flag);
  ~ConnectionListener() { Stop(); }

  int port() const { return listening_.port; }

  // From now on every connection goes to `handler`; once. A connection beyond FilesForCallers() is
  // closed instead. UNAVAILABLE: no thread.
  absl::Status Start(Handler handler);
  // Hands on who is connected by then, accepts no more, and gives the port up. Later calls do
  // nothing.
  void Stop();

 private:
  ConnectionListener(ListeningSockets listening, FileDescriptor wake)
      : listening_(std::move(listening)), wake_(std::move(wake)) {}
  void Run(const Handler& handler);
  // False where the system has no room for a connection just now.
  bool AcceptOne(int socket, const Handler& handler);

  ListeningSockets listening_;
  FileDescriptor wake_;   // readable: stop
  uint64_t refused_ = 0;  // connections; the thread's
  std::thread thread_;
};

}  // namespace fovea
