// Where a variant comes from: what a served model was loaded from, to be loaded once more.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/core/cancellation.h"
#include "server/pipeline/served_model.h"

namespace fovea {

struct VariantSource {
  VersionToLoad version;                    // with the variant's attention and no on_lost
  std::unique_ptr<RepositoryFile> weights;  // open, so that `version` names it; null: random
};

// `attention` empty: the model's own. FAILED_PRECONDITION compare.weights_not_kept: they were sent
// with its load; UNAVAILABLE: their file is no longer what was loaded.
absl::StatusOr<VariantSource> OpenVariantSource(const ServedModel& served,
                                                const std::string& attention,
                                                CancellationPtr cancellation);

}  // namespace fovea
