// A request's picture with what its model has found drawn over it.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"
#include "server/imaging/preprocess.h"

namespace fovea {

// Asks for the results in the form that is drawn: masks, where the model has them, and class maps
// as run lengths; objects of a score of at least 0.5 where the request names none. INVALID_ARGUMENT
// request.drawing: it is not one picture in a file.
absl::Status AskForDrawing(const ModelView& model, InferenceRequest* request);

// The drawing as a PNG file, counted in the request's memory. Decodes the picture anew: of the
// pixels that the model saw, much may have been cut off. `results` are those of AskForDrawing's
// options. Errors: those of DecodeUpright and EncodePng.
absl::StatusOr<std::string> DrawResults(InferenceRequest& request, const Results& results,
                                        const ImagingOptions& options,
                                        const ImagingResources& resources);

}  // namespace fovea
