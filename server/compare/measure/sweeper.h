// Runs sweeps: loads a variant for each value of each curve, measures all of them in turn on the
// held lane, and fits how their costs grow.
#pragma once

#include "base/limits.h"
#include "server/compare/experiment_line.h"
#include "server/compare/held_lane.h"
#include "server/core/model_catalog.h"
#include "server/core/sweep.h"
#include "server/pipeline/served_model.h"

namespace fovea {

struct SweeperOptions {
  // What the variants of one sweep may hold together, weights and batches. Turn it up for many
  // points of large models.
  int64_t max_bytes = limits::kExperimentMemoryMb * limits::kMiB;
  // In which a pass of a point is done when it is tried, or the point is left out: models wait
  // meanwhile. Turn it up to measure what is slower on a server that serves little.
  Nanos max_pass = limits::kMaxExperimentPassSeconds * kSecond;
  // After which no round begins, whatever a request says.
  Nanos max_time = limits::kMaxComparisonSeconds * kSecond;
  // In which a point is loaded and warmed up, beside what serves.
  Nanos max_load = limits::kMaxSweptLoadSeconds * kSecond;
};

// Thread-safe. The catalog's models were made by ServedModel::Create with `environment`; all that
// it is given outlives it, and `line` has ended before it is destroyed.
class Sweeper final : public SweepRunner {
 public:
  Sweeper(const SweeperOptions& options, const ModelCatalog& catalog,
          const ServedModel::Environment& environment, HeldLane& lane, ExperimentLine& line)
      : options_(options), catalog_(catalog), environment_(environment), lane_(lane), line_(line) {}

  void Sweep(SweepRequest request, CancellationPtr cancellation, ProgressListener progress,
             Done done) override;

 private:
  const SweeperOptions options_;
  const ModelCatalog& catalog_;
  const ServedModel::Environment environment_;
  HeldLane& lane_;
  ExperimentLine& line_;
};

}  // namespace fovea
