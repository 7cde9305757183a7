// What is counted of one live comparison.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/live_experiment.h"
#include "server/observe/metric_families.h"
#include "server/observe/series.h"

namespace fovea {

// Its series are there from the start, but those of intervals, and go with it; how many experiments
// have ended stays. No two of one name at a time. Not thread-safe.
class ExperimentMeter {
 public:
  // The names come from the operator's plan, not from callers of models.
  ExperimentMeter(MetricFamilies& families, const std::string& experiment, const std::string& model,
                  const std::vector<std::string>& arms);

  void OnRequest(size_t arm, ArmOutcome outcome) {
    arms_[arm].requests[static_cast<size_t>(outcome)]->Increment();
  }
  void SetLatencyRatio(size_t arm, const SequentialTest& ratio) {
    Set(families_.experiment_latency, arm, ratio, arms_[arm].latency);
  }
  void SetDisagreement(size_t arm, const SequentialTest& share) {
    Set(families_.experiment_disagreement, arm, share, arms_[arm].disagreement);
  }
  void SetErrorExcess(size_t arm, const SequentialTest& excess) {
    Set(families_.experiment_errors, arm, excess, arms_[arm].errors);
  }
  void OnEnded(ExperimentState why);  // not kRunning

  // The counters of all reasons, so that the first end is seen. At the server's start.
  static void CountEnds(MetricFamilies& families);

 private:
  using Gauges = std::optional<std::array<prometheus::Gauge*, 3>>;  // none: no series yet
  struct Arm {
    std::string name;
    std::array<prometheus::Counter*, 4> requests{};
    Gauges latency, disagreement, errors;
  };
  void Set(prometheus::Family<prometheus::Gauge>& family, size_t arm, const SequentialTest& test,
           Gauges& gauges);

  MetricFamilies& families_;
  OwnedSeries series_;
  prometheus::Gauge& running_;
  std::vector<Arm> arms_;
};

}  // namespace fovea
