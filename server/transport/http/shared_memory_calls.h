// Handlers of the paths of shared memory. Generic clients ask for the status and unregister
// everything before they start, whether they use it or not.
#pragma once

#include "server/transport/http/path_call.h"

namespace fovea::http_calls {

void Register(PathCall call);
void Unregister(PathCall call);
void ListRegions(PathCall call);

// Of CUDA's, which this server does not have.
void NoRegions(PathCall call);
void AnswerNothing(PathCall call);
void RegisterCuda(PathCall call);

}  // namespace fovea::http_calls
