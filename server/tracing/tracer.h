// Decides which requests are traced, and names their spans.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"
#include "server/tracing/span.h"
#include "server/tracing/span_exporter.h"
#include "server/tracing/trace_context.h"
#include "server/tracing/trace_control.h"

namespace fovea {

// What a request or a stream belongs to.
struct TraceParent {
  TraceContext context;
  // Where that is a span of this server (a stream's): whether it is recorded, whether because its
  // caller asked for it, and its clock.
  struct Local {
    bool recorded = false;
    bool forced = false;
    Nanos wall = 0;
  };
  std::optional<Local> local;
};

// One span of this server's, as it is known to its caller, its children and the log.
struct RequestTrace {
  // Its own, where it is recorded; else its caller's, which may be none.
  TraceContext context;
  bool recorded = false;
  bool forced = false;  // because its caller asked for it
  SpanId parent = 0;    // 0: none
  bool remote_parent = false;
  Nanos wall = 0;  // since 1970, when steady time was 0

  TraceParent AsParent() const {
    return {.context = context, .local = TraceParent::Local{recorded, forced, wall}};
  }
};

struct TracerOptions {
  // Of requests without a parent, the share that is traced: 0 to 1.
  double sampling = 1;
  // Requests a second that are traced because their callers ask for it; 0: none. Callers are not
  // trusted: each such request costs what a trace costs, whatever the sampling.
  int64_t max_forced_per_second = limits::kForcedTracesPerSecond;
  // Called for each request that asked for it and is not, because there were too many; any thread.
  std::function<void()> on_not_forced = [] {};
};

// Thread-safe.
class Tracer {
 public:
  // `exporter`: null where there is no collector, and nothing is traced. It and `clock` outlive it.
  Tracer(const TracerOptions& options, SpanExporter* exporter, Clock& clock)
      : options_(options),
        exporter_(exporter),
        clock_(clock),
        settings_(exporter != nullptr, options.sampling) {}

  // Of a request for `model` (empty: for none that serves), or of a stream. A parent of this
  // server's is followed, and so is a caller that asks to be traced, as often as the options allow
  // (each request of a stream that was asked for counts); one that says that it is not is not. The
  // others are traced by the settings, which turn all of them off.
  RequestTrace Start(const TraceParent& parent, const std::string& model);

  // Spans of a request that is recorded.
  void Record(std::vector<Span> spans) { exporter_->Add(std::move(spans)); }

  bool traces() const { return exporter_ != nullptr; }
  TraceControl& settings() { return settings_; }

 private:
  bool Wants(const TraceParent& parent, const std::string& model, const TraceId& trace);
  bool TakeForced();

  const TracerOptions options_;
  SpanExporter* const exporter_;
  Clock& clock_;
  TraceControl settings_;
  Mutex mutex_;
  Nanos second_ ABSL_GUARDED_BY(mutex_) = 0;    // when the current one began
  int64_t forced_ ABSL_GUARDED_BY(mutex_) = 0;  // in it
};

}  // namespace fovea
