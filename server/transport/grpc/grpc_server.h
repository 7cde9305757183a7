// The gRPC entry: inference.GRPCInferenceService, fovea.v1.VisionService, health and reflection on
// one port.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/api/api_methods.h"
#include "server/api/server_api.h"
#include "server/api/transport.h"
#include "server/core/clock.h"
#include "server/transport/connections/tls_certificate.h"

namespace fovea {

struct GrpcServerOptions {
  std::string host = "127.0.0.1";  // an address, or a name that resolves to one
  int port = 8001;                 // 0: any free one
  // Of one message, as it comes off the wire; at most limits::kMaxMessageBytes. Raise it for larger
  // batches.
  int64_t max_message_bytes = limits::kMaxMessageBytes;
  // Of one answer; at most limits::kMaxAnswerBytes, what a message holds.
  size_t max_answer_bytes = limits::kMaxAnswerBytes;
  // Of all gRPC buffers together. gRPC slows down and then closes connections when it runs out;
  // several times max_message_bytes, or a few callers' large messages shut out the rest.
  int64_t max_buffer_bytes = int64_t{768} << 20;
  // In which a connection is set up.
  int64_t handshake_ms = int64_t{limits::kHandshakeSeconds} * 1000;
  // Calls of one connection that are under way; more wait at the caller.
  int64_t max_concurrent_streams = limits::kMaxConcurrentStreams;
  // Of one stream of requests: those that have been taken and whose answers have not left. Raise it
  // where one stream alone is to fill large batches.
  int64_t max_stream_requests = limits::kMaxStreamRequestsInFlight;
  // Between two pings of the server, which find callers that are gone without a word; 0: never.
  int64_t keepalive_time_ms = limits::kGrpcKeepaliveTimeMs;
  // In which a caller answers one, or its connection ends.
  int64_t keepalive_timeout_ms = limits::kGrpcKeepaliveTimeoutMs;
  // Between two pings of a caller. One that pings sooner more than `max_ping_strikes` times is sent
  // GOAWAY and closed; 0 strikes: never.
  int64_t min_ping_interval_ms = limits::kGrpcMinPingIntervalMs;
  int64_t max_ping_strikes = limits::kGrpcMaxPingStrikes;
  // Of one connection's life without a call; 0: any time. Lower it where idle callers use up the
  // file descriptors.
  int64_t max_connection_idle_ms = limits::kGrpcMaxConnectionIdleMs;
  // After this long a connection is asked to end, and its calls have the grace to do so; 0: never.
  // Set it behind a load balancer that spreads connections, not calls.
  int64_t max_connection_age_ms = 0;
  int64_t max_connection_age_grace_ms = limits::kGrpcMaxConnectionAgeGraceMs;
  ApiGroups groups = ApiGroups::All();         // that the port answers
  std::shared_ptr<const TlsCertificates> tls;  // null: without TLS
};

// Thread-safe. States: listening, stopped. ServerApi::Drain comes first where requests are to get
// their answers.
class GrpcServer final : public Transport {
 public:
  // Opens the port and answers. `api` outlives it. INVALID_ARGUMENT: options that make no sense;
  // UNAVAILABLE: the port cannot be had, and why, or server.no_thread.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Create(const GrpcServerOptions& options,
                                                            ServerApi& api);
  // Closes.
  ~GrpcServer() override;

  int port() const;  // the one that was taken

  void DrainStreams() override;
  void AwaitStreams(Nanos until) override;
  void StopListening() override;
  void Close() override;

 private:
  struct State;
  explicit GrpcServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace fovea
