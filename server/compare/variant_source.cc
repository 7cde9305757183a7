#include "server/compare/variant_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"

namespace fovea {

absl::StatusOr<std::shared_ptr<const ServedModel>> AcquireServed(const ModelCatalog& catalog,
                                                                 const Variant& variant) {
  FOVEA_ASSIGN_OR_RETURN(const auto handle,
                         catalog.Acquire(variant.model_name, variant.model_version));
  auto served = std::dynamic_pointer_cast<const ServedModel>(handle);
  FOVEA_CHECK(served != nullptr);
  return served;
}

SourceModel SourceOf(const ServedModel& served) {
  SourceModel model{
      .version = served.source(), .view = served.view(), .preprocessing = served.preprocessing()};
  model.version.on_lost = nullptr;
  model.version.on_progress = nullptr;
  return model;
}

absl::StatusOr<SourceModel> FindSource(const ModelCatalog& catalog, const Variant& variant) {
  FOVEA_ASSIGN_OR_RETURN(const auto served, AcquireServed(catalog, variant));
  return SourceOf(*served);
}

int64_t BytesToLoad(const SourceModel& model) {
  const auto& file = model.version.weights_file;
  return file ? 2 * file->identity.size : 0;
}

std::string WeightsOfAttention(const ModelView& served, const std::string& attention) {
  return attention == served.attention ? "" : served.attention;
}

absl::StatusOr<VariantSource> OpenVariantSource(const SourceModel& model,
                                                const std::string& attention,
                                                CancellationPtr cancellation) {
  VariantSource source{.version = model.version};
  source.version.cancellation = std::move(cancellation);
  models::ModelDescription& description = source.version.spec.description;
  if (!description.random_weights_seed) {
    if (!source.version.weights_file) {
      return FailedPrecondition("compare.weights_not_kept",
                                absl::StrCat("the weights of ", source.version.name,
                                             " were sent with its load, and are not kept"));
    }
    FOVEA_ASSIGN_OR_RETURN(source.weights, OpenWeights(*source.version.weights_file));
    description.weights = source.weights->path();
  }
  if (!attention.empty()) description.attention = {attention};
  return source;
}

}  // namespace fovea
