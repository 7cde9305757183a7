// A question with a known answer, asked of a loaded version.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model_zoo/folder/model_folders.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"

namespace fovea {

// What a version's folder asks, and what it expects.
struct Canary {
  CanarySpec spec;
  std::shared_ptr<const CanaryFiles> files;
};

// That of `version` of `model`, both as they were found; its files are read now.
// FAILED_PRECONDITION and UNAVAILABLE as folder/canary_files; UNAVAILABLE: no memory. Only of a
// version that has one.
absl::StatusOr<Canary> ReadCanaryOf(const ModelFolderContents& model,
                                    const VersionFolderContents& version);

// Whether an answer of `model` is the one expected. FAILED_PRECONDITION canary.failed, in words.
absl::Status CheckCanaryAnswer(const Canary& canary, const ModelView& model,
                               const InferenceResponse& response);

// Asks `model` as any caller would, behind the requests of every priority that it has, and blocks
// until it has answered, for limits::kMaxCanarySeconds at most, or until `stop`. The handle is
// released on any thread. FAILED_PRECONDITION canary.failed: it answers wrongly, or with an error
// of its own; UNAVAILABLE canary.not_answered: it could not be asked, which says nothing of it.
absl::Status AskCanary(std::shared_ptr<const ServingModel> model, const Canary& canary,
                       Clock& clock, const Cancellation& stop);

}  // namespace fovea
