// Numbers that nobody else has: of traces and spans.
#pragma once

#include "server/tracing/trace_context.h"

namespace fovea {

// From a generator of the calling thread, which the system's random numbers have seeded. Not fit
// for secrets.
TraceId RandomTraceId();
SpanId RandomSpanId();

}  // namespace fovea
