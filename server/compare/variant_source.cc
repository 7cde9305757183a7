#include "server/compare/variant_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace fovea {

absl::StatusOr<VariantSource> OpenVariantSource(const ServedModel& served,
                                                const std::string& attention,
                                                CancellationPtr cancellation) {
  VariantSource source{.version = served.source()};
  source.version.on_lost = nullptr;
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
