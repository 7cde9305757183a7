// The span of a stream of requests, from its start until its last answer has left.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/core/protocol.h"
#include "server/tracing/tracer.h"

namespace fovea {

class ServerApi;

// Not thread-safe, but for parent() and traceparent().
class StreamTrace {
 public:
  // Begins. `remote`: what its caller has told; `method`: a constant. `api` outlives it.
  StreamTrace(ServerApi& api, Protocol protocol, std::string_view method, TraceContext remote);

  // Of its requests.
  TraceParent parent() const { return trace_.AsParent(); }
  // For its caller; empty: none.
  std::string traceparent() const { return TraceParentText(trace_.context); }
  // It ends, once.
  void End(const absl::Status& status, uint64_t requests);

 private:
  ServerApi& api_;
  const Protocol protocol_;
  const std::string_view method_;
  const Nanos started_;
  const RequestTrace trace_;
};

}  // namespace fovea
