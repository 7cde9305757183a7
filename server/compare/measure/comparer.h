// Runs comparisons: loads the variants, measures them in turn on the held lane, and analyses what
// they find.
#pragma once

#include "base/limits.h"
#include "server/compare/experiment_line.h"
#include "server/compare/held_lane.h"
#include "server/core/clock.h"
#include "server/core/comparison.h"
#include "server/core/model_catalog.h"
#include "server/pipeline/served_model.h"

namespace fovea {

struct ComparerOptions {
  // What the variants of one comparison may hold together, weights and batches. Turn it up to
  // compare large models.
  int64_t max_bytes = limits::kExperimentMemoryMb * limits::kMiB;
  // In which every pass is done before anything is measured, or the comparison is refused: models
  // wait meanwhile. Turn it up to measure what is slower on a server that serves little.
  Nanos max_pass = limits::kMaxExperimentPassSeconds * kSecond;
  // In which a variant is loaded and warmed up, for which other loads wait.
  Nanos max_load = limits::kMaxVariantLoadSeconds * kSecond;
};

// Thread-safe. The catalog's models were made by ServedModel::Create with `environment`; all that
// it is given outlives it, and `line` has ended before it is destroyed.
class Comparer final : public ComparisonRunner {
 public:
  Comparer(const ComparerOptions& options, const ModelCatalog& catalog,
           const ServedModel::Environment& environment, HeldLane& lane, ExperimentLine& line)
      : options_(options), catalog_(catalog), environment_(environment), lane_(lane), line_(line) {}

  void Compare(CompareRequest request, CancellationPtr cancellation, ProgressListener progress,
               Done done) override;

 private:
  const ComparerOptions options_;
  const ModelCatalog& catalog_;
  const ServedModel::Environment environment_;
  HeldLane& lane_;
  ExperimentLine& line_;
};

}  // namespace fovea
