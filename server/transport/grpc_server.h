// The gRPC entry: inference.GRPCInferenceService, fovea.v1.VisionService, health and reflection on
// one port.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/core/clock.h"
#include "server/core/inference_service.h"
#include "server/core/model_catalog.h"
#include "server/core/model_statistics.h"
#include "server/transport/transport_observer.h"

namespace fovea {

struct GrpcServerOptions {
  std::string host = "127.0.0.1";  // an address, or a name that resolves to one
  int port = 8001;                 // 0: any free one
  std::string server_version;      // told in the server's metadata
  // Of one message, as it comes off the wire; at most limits::kMaxMessageBytes. Raise it for larger
  // batches.
  int64_t max_message_bytes = limits::kMaxMessageBytes;
  // Of all gRPC buffers together. gRPC slows down and then closes connections when it runs out;
  // several times max_message_bytes, or a few callers' large messages shut out the rest.
  int64_t max_buffer_bytes = int64_t{768} << 20;
  // Of everything that requests make the server hold beside those buffers and beside what decoding
  // an image takes: unpacked and converted messages, pixels at a model's size, answers until they
  // have left. What does not fit is refused, UNAVAILABLE.
  int64_t request_bytes = int64_t{768} << 20;
  // Of one connection's life without a call. Lower it where idle callers use up the file
  // descriptors.
  int64_t max_connection_idle_ms = 15 * 60 * 1000;
  // After this long a connection is asked to end, and its calls have the grace to do so; 0: never.
  // Set it behind a load balancer that spreads connections, not calls.
  int64_t max_connection_age_ms = 0;
  int64_t max_connection_age_grace_ms = 30 * 1000;
  // At its end a drain waits until no inference request has come for `quiet_ms`, at most for
  // `max_quiet_wait_ms`: what was on its way hears why it is refused.
  int64_t quiet_ms = limits::kQuietMs;
  int64_t max_quiet_wait_ms = limits::kMaxQuietWaitMs;
};

// Thread-safe. What it is given outlives it. States: accepting, draining, stopped.
class GrpcServer {
 public:
  // Opens the port and answers; health reads NOT_SERVING until SetServing(true). `observer` may be
  // null. INVALID_ARGUMENT: options that make no sense; UNAVAILABLE: the port cannot be had, and
  // why, or server.no_thread.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Create(
      const GrpcServerOptions& options, InferenceService& inference, ModelCatalog& catalog,
      const StatisticsSource& statistics, TransportObserver* observer, Clock& clock);
  // Shuts down at once.
  ~GrpcServer();

  int port() const;  // the one that was taken

  // What health and ServerReady say; requests are taken either way. A drain begins with false.
  void SetServing(bool serving);

  // Refuses new requests (UNAVAILABLE), waits up to `timeout` for those under way, gives the others
  // up (UNAVAILABLE too, within limits::kGiveUpSeconds more), ends the connections, and closes the
  // port; a model that is being loaded is waited for. Answers that their callers do not read are
  // waited for limits::kUnreadAnswerSeconds at most, within `timeout`; quiet is waited for beyond
  // it, but not where `timeout` is 0. Returns the number of requests that were given up before they
  // had an answer: 0 is a clean end. Later calls do nothing and return 0.
  int Shutdown(Nanos timeout);

 private:
  struct State;
  explicit GrpcServer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace fovea
