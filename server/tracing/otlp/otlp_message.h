// Spans as OTLP's messages.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proto/opentelemetry/proto/collector/trace/v1/trace_service.pb.h"
#include "server/tracing/span.h"

namespace fovea {

// What the process says of itself: names and values.
using ResourceAttributes = std::vector<std::pair<std::string, std::string>>;

// Text that is no UTF-8, or has control characters, is escaped: collectors refuse the whole message
// else.
opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest ToOtlp(
    const ResourceAttributes& resource, std::string_view version, std::span<const Span> spans);

}  // namespace fovea
