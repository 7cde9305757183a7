// Answered requests as spans, by OpenTelemetry's semantic conventions (RPC, HTTP; version 1.30 of
// them).
#pragma once

#include <vector>

#include "server/api/request_observer.h"
#include "server/tracing/span.h"

namespace fovea {

// The span of a request that is recorded, and one for each stretch of its stages.
std::vector<Span> SpansOf(const AnsweredRequest& request);
// The span of a stream, whose requests are its children.
Span SpanOf(const EndedStream& stream);

}  // namespace fovea
