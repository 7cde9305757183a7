// Who is told of answered requests.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "server/core/model_catalog.h"
#include "server/core/protocol.h"
#include "server/core/stages.h"
#include "server/tracing/tracer.h"

namespace fovea {

struct AnsweredRequest {
  Protocol protocol = Protocol::kGrpc;
  std::string_view method;     // of the service, for example "ModelInfer"; a constant
  std::string_view principal;  // of the caller; empty: nobody in particular
  std::string_view key;        // the name of its API key, from the operator's file; or empty
  // What served when the request arrived; null where it named none that is loaded. Labels come from
  // here alone: what a caller writes must not make a new series (docs/faults.md, row 47).
  const ServingModel* model = nullptr;
  absl::StatusCode code = absl::StatusCode::kOk;
  StageTimes stages;
  Nanos ended = 0;     // now, in steady time: the request began with its stages
  int batch_size = 0;  // images in the batch that it was run in; 0: it was not
  std::optional<DeviceTimes> device_times;  // of that batch; absent on the CPU
  RequestTrace trace;
  std::string_view route;  // over HTTP: the pattern of its path, a constant
  bool tls = false;        // over HTTP: it came within TLS
  // For the access log: what the caller wrote, as far as it could be read; the error's token; the
  // message as it came off the wire, and the encoded answer. Views and the model are valid during
  // the call.
  std::string_view id, requested_model, requested_version, reason;
  int64_t received_bytes = 0, sent_bytes = 0;
};

// A stream whose span is recorded.
struct EndedStream {
  Protocol protocol = Protocol::kGrpc;
  std::string_view method;
  RequestTrace trace;
  Nanos started = 0, ended = 0;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string_view reason;
  uint64_t requests = 0;
};

// Thread-safe.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;
  // An inference request has arrived. OnRequestDone will follow.
  virtual void OnRequestArrived() = 0;
  // Called once for each inference request (not for the other calls), just before its answer is
  // handed to the wire, on any thread; returns quickly.
  virtual void OnRequestDone(const AnsweredRequest& request) = 0;
  // A stream of requests has ended, just before its caller hears of it; returns quickly.
  virtual void OnStreamEnded(const EndedStream& /*stream*/) {}
};

}  // namespace fovea
