// The handler of the path that explains.
#pragma once

#include "server/transport/http/path_call.h"

namespace fovea::http_calls {

// POST /v1/explain. One image as in the short paths of vision tasks; options under the names of
// v1::ExplainRequest, but `model`, `version`, and one by one `method`, `layer` and `head`, which
// are repeated. Methods and forms in any case. Answers v1::Explanation in JSON, or, where the
// caller would rather have image/png, the one picture that was asked for.
void Explain(PathCall call);

}  // namespace fovea::http_calls
