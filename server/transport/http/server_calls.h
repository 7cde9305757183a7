// Handlers of the paths that tell of the server and its models.
#pragma once

#include "server/transport/http/path_call.h"

namespace fovea::http_calls {

void Live(PathCall call);
void Ready(PathCall call);
void ModelReady(PathCall call);

void TellOfServer(PathCall call);
void TellMetadata(PathCall call);
void TellConfig(PathCall call);
void Statistics(PathCall call);
void TellMetrics(PathCall call);

void TraceSettings(PathCall call);
void ChangeTraceSettings(PathCall call);
void LogSettings(PathCall call);
void ChangeLogSettings(PathCall call);

}  // namespace fovea::http_calls
