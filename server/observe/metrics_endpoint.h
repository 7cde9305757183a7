// Metrics in Prometheus' text format over HTTP.
//
// Not prometheus-cpp's own exposer: its HTTP server starts threads with a stack of 100 KB, which a
// process with LibTorch's thread-local storage cannot have.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/limits.h"

namespace fovea {

// Answers GET and HEAD of /metrics from one thread of its own. Slow and oversized requests are cut
// off; who is one connection too many waits until another ends.
class MetricsEndpoint {
 public:
  // Listens as Listen in core/listen.h does, with its errors. `text` makes the answer, on the
  // endpoint's thread. `max_connections`: open at a time, so that they do not use up the process's
  // files; more where that many programs scrape.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Create(
      const std::string& host, int port, std::function<std::string()> text,
      int max_connections = limits::kMaxMetricsConnections);
  ~MetricsEndpoint();

  int port() const;

 private:
  struct State;
  explicit MetricsEndpoint(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fovea
