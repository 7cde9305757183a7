// Handlers of the playground's paths: files of client/web, which lie in the program itself.
#pragma once

#include "server/transport/http/path_call.h"

namespace fovea::http_calls {

void OpenPlayground(PathCall call);  // its one page
void PlaygroundFile(PathCall call);

}  // namespace fovea::http_calls
