// Traces, as the command line asks for them.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/clock.h"
#include "server/lifecycle/options.h"
#include "server/observe/metrics.h"
#include "server/tracing/span_exporter.h"
#include "server/tracing/tracer.h"

namespace fovea {

// Thread-safe. `metrics` and `clock` outlive it, and it outlives what has its tracer.
class Tracing {
 public:
  // Without --otlp-endpoint nothing is traced, and no connection is ever opened; with it, one when
  // the first spans are sent. CheckTracing's errors; UNAVAILABLE server.no_thread.
  static absl::StatusOr<std::unique_ptr<Tracing>> Create(const ServerOptions& options,
                                                         Metrics& metrics, Clock& clock);

  const std::shared_ptr<Tracer>& tracer() const { return tracer_; }
  // Sends what waits, until `until` at most.
  void Stop(Nanos until) {
    if (exporter_ != nullptr) exporter_->Stop(until);
  }

 private:
  std::unique_ptr<SpanObserver> counts_;
  std::unique_ptr<SpanExporter> exporter_;  // null: no collector
  std::shared_ptr<Tracer> tracer_;
};

// What keeps spans from being sent, as far as the command line tells. INVALID_ARGUMENT
// trace.endpoint, trace.resource (--otlp-resource is no NAME=VALUE), tls.issuers (--otlp-ca), or
// that its file cannot be read.
absl::Status CheckTracing(const ServerOptions& options);

}  // namespace fovea
