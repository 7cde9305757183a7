// Runs comparisons, one at a time: loads the variants, measures them in turn on the held lane, and
// analyses what they find.
#pragma once

#include <deque>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/compare/held_lane.h"
#include "server/core/comparison.h"
#include "server/core/model_catalog.h"
#include "server/core/mutex.h"
#include "server/imaging/image.h"
#include "server/pipeline/served_model.h"

namespace fovea {

struct ComparerOptions {
  HeldLaneOptions lane;
  // What the variants of one comparison may hold together, weights and batches. Turn it up to
  // compare large models.
  int64_t max_bytes = int64_t{4} << 30;
  // Comparisons that may wait for the one that runs; their images are held meanwhile.
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
  ~Comparer() override;

  // Ends the comparison that runs, and those that wait and come later, UNAVAILABLE; waits for the
  // pass that runs. Later calls do nothing.
  void Stop();

  void Compare(CompareRequest request, CancellationPtr cancellation, Progress progress,
               Done done) override;

 private:
  struct Job {
    CompareRequest request;
    CancellationPtr cancellation;
    Progress progress;
    Done done;
  };
  Comparer(const ComparerOptions& options, const ModelCatalog& catalog,
           const ServedModel::Environment& environment);
  void Work();
  absl::StatusOr<Comparison> Run(const Job& job);

  const ComparerOptions options_;
  const ModelCatalog& catalog_;
  const ServedModel::Environment environment_;
  std::unique_ptr<HeldLane> lane_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Job> waiting_ ABSL_GUARDED_BY(mutex_);
  CancellationPtr running_ ABSL_GUARDED_BY(mutex_);  // null: none runs
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace fovea
