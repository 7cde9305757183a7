// Handlers of the paths of experiments that tell how they go on. They answer lines of JSON
// (application/x-ndjson) as they come: {"progress": ...}, and last what came out or an error as
// ErrorAnswer has it; what fails before the first line has its status.
#pragma once

#include "server/transport/http/path_call.h"

namespace fovea::http_calls {

// POST /v1/compare. Images as in the short paths of vision tasks; options under the names of
// v1::CompareRequest, and for its variants those of NamedVariants: of one attention, the model as
// it is comes before it. The last line has "comparison".
void Compare(PathCall call);

// POST /v1/sweep. At most one image; options under the names of v1::SweepRequest and those of
// NamedVariants. `over` in small letters too; `values` joined by commas, or repeated. The last
// line has "sweep".
void Sweep(PathCall call);
// POST /v1/serve, without a body: variants as above, but of one attention no model before it. Lines
// of JSON: {"progress": ...}, then {"served": {"variants": [...]}} again and again. They
// are served until the caller closes the connection; where the server ends it, an error is the last
// line.
void Serve(PathCall call);

}  // namespace fovea::http_calls
