// A span, as it is exported.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/core/clock.h"
#include "server/tracing/trace_context.h"

namespace fovea {

using AttributeValue = std::variant<std::string, int64_t, double, bool>;

struct Span {
  enum class Kind { kInternal, kServer };

  TraceId trace;
  SpanId id = 0;
  SpanId parent = 0;           // 0: the trace begins here
  bool remote_parent = false;  // the parent is another process's
  std::string state;           // of the trace: `tracestate`
  std::string name;
  Kind kind = Kind::kInternal;
  Nanos start = 0, end = 0;  // since 1970
  // Names are constants.
  std::vector<std::pair<std::string_view, AttributeValue>> attributes;
  bool failed = false;
  std::string why;  // where it failed
};

}  // namespace fovea
