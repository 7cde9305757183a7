// From what a model gave for a request to the request's answer.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/core/clock.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"
#include "server/executor/inference_task.h"
#include "server/pipeline/served_model.h"

namespace fovea {

// Answers the request of `task`, which `model` has run or which has failed or was dropped
// (`result`): calls `done` once, before it returns or, where something is left to do for this task
// alone or its results take long to make, on a thread of imaging's; of a request's pictures, not on
// all of them at a time (see ImagingSchedule). `handle` keeps `model` serving
// until then; `clock` outlives it.
void AnswerTask(const ServedModel& model, std::shared_ptr<const ServingModel> handle, Clock& clock,
                InferenceCallback done, std::unique_ptr<InferenceTask> task,
                absl::StatusOr<TaskResult> result);

}  // namespace fovea
