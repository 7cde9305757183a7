// Explains what models look at, one image at a time: loads the model as it was trained, runs it on
// the held lane with its attention maps recorded, and draws what was found.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "server/compare/experiment_line.h"
#include "server/compare/held_lane.h"
#include "server/core/explanation.h"
#include "server/core/memory_budget.h"
#include "server/core/model_catalog.h"
#include "server/pipeline/served_model.h"

namespace fovea {

struct ExplainerOptions {
  // What one explanation may hold, weights and maps. Turn it up for large inputs: a map is the
  // square of the number of tokens.
  int64_t max_bytes = limits::kExperimentMemoryMb * limits::kMiB;
  // Explanations that may wait for the one that runs; their images are held meanwhile.
  size_t max_waiting = limits::kMaxWaitingExplanations;
  MemoryBudget* waiting_memory = nullptr;  // as ExperimentLineOptions has it
};

// Thread-safe. The catalog's models were made by ServedModel::Create with `environment`; all that
// it is given outlives it.
class Explainer final : public ExplanationRunner {
 public:
  // UNAVAILABLE server.no_thread.
  static absl::StatusOr<std::unique_ptr<Explainer>> Create(
      const ExplainerOptions& options, const ModelCatalog& catalog,
      const ServedModel::Environment& environment, HeldLane& lane);

  // As ExperimentLine's.
  void Close() { line_->Close(); }
  void Stop() { line_->Stop(); }

  void Explain(ExplainRequest request, CancellationPtr cancellation, Done done) override;

 private:
  Explainer(const ExplainerOptions& options, const ModelCatalog& catalog,
            const ServedModel::Environment& environment, HeldLane& lane)
      : options_(options), catalog_(catalog), environment_(environment), lane_(lane) {}
  absl::StatusOr<Explanation> Run(const ExplainRequest& request,
                                  const CancellationPtr& cancellation);

  const ExplainerOptions options_;
  const ModelCatalog& catalog_;
  const ServedModel::Environment environment_;
  HeldLane& lane_;
  std::unique_ptr<ExperimentLine> line_;  // last: its thread uses the others
};

}  // namespace fovea
