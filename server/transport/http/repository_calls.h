// Handlers of the paths of the model repository.
#pragma once

#include "server/transport/http/path_call.h"

namespace fovea::http_calls {

void ListModels(PathCall call);  // the names of those that are ready, as KServe's clients know it
void Index(PathCall call);
void Load(PathCall call);
void Unload(PathCall call);

}  // namespace fovea::http_calls
