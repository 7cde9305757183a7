#include "server/tracing/tracer.h"

#include <chrono>

#include "server/tracing/random_id.h"

namespace fovea {
namespace {

// What the wall clock has ahead of `clock`. Once for a request, so that a jump tears no trace.
Nanos WallAheadOf(const Clock& clock) {
  const auto since_1970 = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_1970).count() - clock.Now();
}

}  // namespace

RequestTrace Tracer::Start(const TraceParent& parent, const std::string& model) {
  RequestTrace trace{.context = parent.context};
  if (exporter_ == nullptr) return trace;
  const TraceId id = parent.context.valid() ? parent.context.trace : RandomTraceId();
  if (!Wants(parent, model, id)) return trace;
  trace.recorded = true;
  trace.forced = parent.local ? parent.local->forced : parent.context.valid();
  trace.parent = parent.context.span;
  trace.remote_parent = trace.parent != 0 && !parent.local;
  trace.context.trace = id;
  trace.context.span = RandomSpanId();
  trace.context.sampled = true;
  trace.wall = parent.local ? parent.local->wall : WallAheadOf(clock_);
  return trace;
}

bool Tracer::Wants(const TraceParent& parent, const std::string& model, const TraceId& trace) {
  if (!settings_.On(model)) return false;
  if (parent.local) return parent.local->recorded && (!parent.local->forced || TakeForced());
  if (!parent.context.valid()) return settings_.Take(model, trace);
  return parent.context.sampled && TakeForced();
}

bool Tracer::TakeForced() {
  const Nanos now = clock_.Now();
  {
    MutexLock lock(mutex_);
    if (now - second_ >= kSecond) {
      second_ = now;
      forced_ = 0;
    }
    if (forced_ < options_.max_forced_per_second) {
      ++forced_;
      return true;
    }
  }
  options_.on_not_forced();
  return false;
}

}  // namespace fovea
