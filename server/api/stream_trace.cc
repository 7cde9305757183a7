#include "server/api/stream_trace.h"

#include <utility>

#include "base/status.h"
#include "server/api/server_api.h"

namespace fovea {

StreamTrace::StreamTrace(ServerApi& api, Protocol protocol, std::string_view method,
                         TraceContext remote)
    : api_(api),
      protocol_(protocol),
      method_(method),
      started_(api.clock().Now()),
      trace_(api.tracer().Start({.context = std::move(remote), .local = {}}, "")) {}

void StreamTrace::End(const absl::Status& status, uint64_t requests) {
  if (!trace_.recorded || api_.observer() == nullptr) return;
  const std::string reason = ReasonOf(status);
  api_.observer()->OnStreamEnded({.protocol = protocol_,
                                  .method = method_,
                                  .trace = trace_,
                                  .started = started_,
                                  .ended = api_.clock().Now(),
                                  .code = status.code(),
                                  .reason = reason,
                                  .requests = requests});
}

}  // namespace fovea
