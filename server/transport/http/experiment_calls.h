// Handlers of the paths of live comparisons. Bodies and answers are the messages of
// v1::ExperimentService in JSON.
#pragma once

#include "server/transport/http/path_call.h"

namespace fovea::http_calls {

void StartExperiment(PathCall call);   // POST /v1/experiments, a v1::ExperimentPlan
void ListExperiments(PathCall call);   // GET /v1/experiments
void GetExperiment(PathCall call);     // GET /v1/experiments/{experiment}
void StopExperiment(PathCall call);    // POST /v1/experiments/{experiment}/stop
void DeleteExperiment(PathCall call);  // DELETE /v1/experiments/{experiment}

}  // namespace fovea::http_calls
