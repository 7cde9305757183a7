// What an experiment tells those who count.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/core/live_experiment.h"

namespace fovea {

// Observes one experiment, from when it runs until it is forgotten. Calls come one at a time, and
// return quickly. `arm`: its number in the plan.
class ExperimentObserver {
 public:
  virtual ~ExperimentObserver() = default;
  virtual void OnRequest(size_t arm, ArmOutcome outcome) = 0;
  // At least one of the three has changed; the others may still be absent.
  virtual void OnTests(size_t arm, const std::optional<SequentialTest>& latency_ratio,
                       const std::optional<SequentialTest>& disagreement,
                       const std::optional<SequentialTest>& error_excess) = 0;
  virtual void OnEnded(ExperimentState why) = 0;
};

// `arms`: the names of the plan's arms.
using ExperimentObserverFactory = std::function<std::unique_ptr<ExperimentObserver>(
    const ExperimentPlan& plan, const std::vector<std::string>& arms)>;

}  // namespace fovea
