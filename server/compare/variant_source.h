// Where a variant comes from: a served model, what it was loaded from, and how it is loaded once
// more.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/core/cancellation.h"
#include "server/core/model_catalog.h"
#include "server/core/variant.h"
#include "server/pipeline/served_model.h"

namespace fovea {

// The model that `variant` names, as it serves now. ModelCatalog::Acquire's errors. The catalog's
// models were made by ServedModel::Create.
absl::StatusOr<std::shared_ptr<const ServedModel>> AcquireServed(const ModelCatalog& catalog,
                                                                 const Variant& variant);

// What an experiment keeps of a served model, to load it once more. It holds nothing that serves:
// an unload of the model waits for no experiment, which goes on with the files of that load.
struct SourceModel {
  VersionToLoad version;  // without what follows its load
  std::shared_ptr<const ModelView> view;
  PreprocessSpec preprocessing;  // from an image of any size to the bytes that the model takes
};
SourceModel SourceOf(const ServedModel& served);
// The source of the model that AcquireServed finds; its errors.
absl::StatusOr<SourceModel> FindSource(const ModelCatalog& catalog, const Variant& variant);

// What a variant's weights may hold, before they are loaded: its file twice, as read and as packed,
// or because its numbers are half as wide as those that run.
int64_t BytesToLoad(const SourceModel& model);

// ComparedVariant::weights_of_attention and the like, of a variant that has `attention` (canonical
// text) over the weights of `served`: empty where it is the model's own.
std::string WeightsOfAttention(const ModelView& served, const std::string& attention);

struct VariantSource {
  VersionToLoad version;                    // with the variant's attention
  std::unique_ptr<RepositoryFile> weights;  // open, so that `version` names it; null: random
};

// `attention` empty: the model's own. FAILED_PRECONDITION compare.weights_not_kept: they were sent
// with its load; UNAVAILABLE: their file is no longer what was loaded.
absl::StatusOr<VariantSource> OpenVariantSource(const SourceModel& model,
                                                const std::string& attention,
                                                CancellationPtr cancellation);

}  // namespace fovea
