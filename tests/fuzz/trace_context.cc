// The headers of W3C Trace Context: a `traceparent`, and lines of `tracestate`.
#include "server/tracing/trace_context.h"

#include <vector>

#include "base/limits.h"
#include "tests/fuzz/fuzz_target.h"

namespace fovea {

FOVEA_FUZZ_TARGET(trace_context, input) {
  const std::string_view parent = input.TakeUntil('\n');
  std::vector<std::string_view> states;
  while (!input.empty()) states.push_back(input.TakeUntil('\n'));
  const TraceContext context = ReadTraceContext(std::span(&parent, 1), states);
  if (!context.valid()) {
    FOVEA_CHECK(context.span == 0 && context.state.empty());
    return;
  }
  FOVEA_CHECK(context.span != 0);
  FOVEA_CHECK(context.state.size() <= limits::kMaxTraceStateBytes);
  for (const char c : context.state) FOVEA_CHECK((c >= ' ' && c <= '~') || c == '\t');
  // What is answered is read as it was.
  const std::string text = TraceParentText(context);
  const std::string_view view = text;
  const std::string_view state = context.state;
  const TraceContext again =
      ReadTraceContext(std::span(&view, 1), std::span(&state, state.empty() ? 0 : 1));
  FOVEA_CHECK(again.trace == context.trace && again.span == context.span);
  FOVEA_CHECK(again.sampled == context.sampled && again.state == context.state);
}

}  // namespace fovea
