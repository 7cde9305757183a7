// HTTP/1.1 on one port: connections, framing, and their limits. What a request means is its
// handler's.
//   RFC 9110 and 9112. What two readers could read in two ways is refused, and the connection
//   closed (docs/faults.md, row 50).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/api/transport.h"
#include "server/core/clock.h"
#include "server/core/memory_budget.h"
#include "server/transport/connections/tls_certificate.h"
#include "server/transport/http/http_exchange.h"

namespace fovea {

struct HttpPort;  // http_session.h

struct HttpServerOptions {
  std::string host = "127.0.0.1";               // an address, or a name that resolves to one
  int port = 8000;                              // 0: any free one
  std::string_view port_flag = "--http-port";   // for errors
  int threads = limits::kHttpThreads;           // that wait for nothing
  int slow_threads = limits::kHttpSlowThreads;  // for what handlers defer, and compression
  int max_connections = limits::kMaxHttpConnections;
  int64_t max_body_bytes = limits::kMaxMessageBytes;
  // With TLS: in which a connection is set up.
  Nanos handshake_time = limits::kHandshakeSeconds * kSecond;
  // How long a connection without a request is kept; 0: for ever.
  Nanos idle = limits::kHttpIdleSeconds * kSecond;
  // What a head may take from its first byte on. Raise it for callers on slow lines.
  Nanos head_time = limits::kHttpHeadSeconds * kSecond;
  // In which a body or an answer has to bring so many seconds' share at
  // limits::kLeastHttpBytesPerSecond, or its end. Raise it for callers that pause.
  Nanos transfer_time = limits::kHttpTransferSeconds * kSecond;
  std::shared_ptr<const TlsCertificates> tls;  // null: without TLS
  HttpCheck check;                             // null: every body is read
};

// Thread-safe. A connection has one request under way: what it sends behind it waits, unread.
class HttpServer final : public Transport {
 public:
  // Opens the port; every whole request goes to `handler`. `budget` counts the bodies, and answers
  // that nobody else counts, and outlives it. UNAVAILABLE: the port cannot be had, and why, or
  // server.no_thread.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Create(const HttpServerOptions& options,
                                                            MemoryBudget& budget, Clock& clock,
                                                            HttpHandler handler);
  // Closes.
  ~HttpServer() override;

  int port() const;  // the one that was taken

  // From now on each answer is its connection's last.
  void DrainStreams() override;
  void AwaitStreams(Nanos /*until*/) override {}
  void StopListening() override;
  // Waits until each exchange has been let go of: their handlers have been told that nobody waits.
  void Close() override;

 private:
  explicit HttpServer(std::shared_ptr<HttpPort> port);
  const std::shared_ptr<HttpPort> port_;
};

}  // namespace fovea
