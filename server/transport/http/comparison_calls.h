// Handlers of the paths of experiments.
#pragma once

#include "server/transport/http/path_call.h"

namespace fovea::http_calls {

// POST /v1/compare. Images as in the short paths of vision tasks; options under the names of
// v1::CompareRequest, and for its variants `model` (NAME or NAME/VERSION) and `attention`, both
// repeated: each attention over each model, or the model as it is; of one attention, the model as
// it is before it. Or, repeated too, `variant` (NAME[/VERSION][:ATTENTION]): just these, before
// those. Answers lines of JSON (application/x-ndjson) as they come: {"progress": ...},
// and last {"comparison": ...} or an error as ErrorAnswer has it; what fails before the first line
// has its status.
void Compare(PathCall call);

// POST /v1/serve, without a body: variants as above, but of one attention no model before it. Lines
// of JSON: {"progress": ...}, then {"served": {"variants": [...]}} again and again. They
// are served until the caller closes the connection; where the server ends it, an error is the last
// line.
void Serve(PathCall call);

}  // namespace fovea::http_calls
