// W3C Trace Context: what the headers `traceparent` and `tracestate` say.
//   https://www.w3.org/TR/trace-context-1/
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fovea {

// 16 bytes, the first one the most significant of `high`. All zero: none.
struct TraceId {
  uint64_t high = 0, low = 0;

  bool valid() const { return high != 0 || low != 0; }
  bool operator==(const TraceId&) const = default;
};
using SpanId = uint64_t;  // 0: none

struct TraceContext {
  TraceId trace;
  SpanId span = 0;       // the caller's
  bool sampled = false;  // the caller records its part, and asks for ours
  std::string state;     // what further tracers keep there, as it came; limits::kMaxTraceStateBytes

  bool valid() const { return trace.valid(); }
};

// Of the values of the two headers, in their order. None where `traceparent` is not there, came
// twice or is malformed: nobody is refused for that. A malformed or overlong `tracestate` is left
// out alone. A version above 00 is read as far as 00 goes.
TraceContext ReadTraceContext(std::span<const std::string_view> traceparent,
                              std::span<const std::string_view> tracestate);

// "00-<trace>-<span>-<flags>"; empty where there is none.
std::string TraceParentText(const TraceContext& context);
// 32 hexadecimal digits; empty where there is none.
std::string TraceIdText(const TraceId& trace);

}  // namespace fovea
