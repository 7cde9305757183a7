#include "client/cpp/cli/on_images.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {

absl::StatusOr<ModelId> ChooseModel(Client& client, const ImagesOptions& options,
                                    const std::string& task) {
  if (!options.model.empty()) return ParseModel(options.model);
  const auto models = client.Models(options.call);
  if (!models.ok()) return models.status();
  std::vector<std::string> names;
  const ModelInfo* failed = nullptr;
  for (const ModelInfo& model : *models) {
    const bool does = model.ready() && model.task == task;
    if (does && (names.empty() || names.back() != model.name)) names.push_back(model.name);
    if (failed == nullptr && !model.reason.empty()) failed = &model;
  }
  if (names.size() == 1) return ModelId{names[0], ""};
  if (names.empty()) {
    return absl::NotFoundError(
        absl::StrCat("the server has no ", task, " model that is ready",
                     failed ? absl::StrCat(" (", failed->name, ": ", failed->reason, ")") : ""));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("choose one with --model: the server has ", absl::StrJoin(names, ", ")));
}

}  // namespace fovea::client
