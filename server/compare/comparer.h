// Runs comparisons, one at a time: loads the variants, measures them in turn on the held lane, and
// analyses what they find.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/compare/experiment_line.h"
#include "server/compare/held_lane.h"
#include "server/core/clock.h"
#include "server/core/comparison.h"
#include "server/core/model_catalog.h"
#include "server/pipeline/served_model.h"

namespace fovea {

struct ComparerOptions {
  HeldLaneOptions lane;
  // What the variants of one comparison may hold together, weights and batches. Turn it up to
  // compare large models.
  int64_t max_bytes = limits::kExperimentMemoryMb * limits::kMiB;
  // In which every pass is done before anything is measured, or the comparison is refused: models
  // wait meanwhile. Turn it up to measure what is slower on a server that serves little.
  Nanos max_pass = limits::kMaxExperimentPassSeconds * kSecond;
  // In which a variant is loaded and warmed up, for which other loads wait.
  Nanos max_load = limits::kMaxVariantLoadSeconds * kSecond;
  // Comparisons and sweeps that may wait for the one that runs; their images are held meanwhile.
  size_t max_waiting = limits::kMaxWaitingComparisons;
};

// Thread-safe. The catalog's models were made by ServedModel::Create with `environment`; all that
// it is given outlives it.
class Comparer final : public ComparisonRunner {
 public:
  // UNAVAILABLE server.no_thread.
  static absl::StatusOr<std::unique_ptr<Comparer>> Create(
      const ComparerOptions& options, const ModelCatalog& catalog,
      const ServedModel::Environment& environment);

  // On which its passes run; for other experiments' too.
  HeldLane& lane() { return *lane_; }
  // In which its comparisons wait; for other experiments that are not to be measured beside them.
  ExperimentLine& line() { return *line_; }

  // As ExperimentLine's.
  void Stop() { line_->Stop(); }

  void Compare(CompareRequest request, CancellationPtr cancellation, Progress progress,
               Done done) override;

 private:
  Comparer(const ComparerOptions& options, const ModelCatalog& catalog,
           const ServedModel::Environment& environment)
      : options_(options), catalog_(catalog), environment_(environment) {}

  const ComparerOptions options_;
  const ModelCatalog& catalog_;
  const ServedModel::Environment environment_;
  std::unique_ptr<HeldLane> lane_;
  std::unique_ptr<ExperimentLine> line_;  // last: its thread uses the others
};

}  // namespace fovea
