// Walks a request through the stages behind the api: admission, imaging, the scheduler, the
// executor, postprocessing. See ARCHITECTURE.md, "Life of a request".
#pragma once

#include <memory>

#include "server/core/model_catalog.h"
#include "server/core/request.h"
#include "server/imaging/imaging_pool.h"
#include "server/pipeline/served_model.h"

namespace fovea {

// ServingModel::Infer for `model`, which `handle` keeps serving. `imaging` and `clock` outlive the
// request.
void RunThroughStages(const ServedModel& model, std::shared_ptr<const ServingModel> handle,
                      std::unique_ptr<InferenceRequest> request, ImagingPool& imaging, Clock& clock,
                      InferenceCallback done);

}  // namespace fovea
