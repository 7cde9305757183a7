// What is shown of an explanation: which maps were asked for, and their pictures.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/compare/explain/explained_model.h"
#include "server/core/cancellation.h"
#include "server/core/explanation.h"
#include "server/core/image_transform.h"
#include "server/imaging/image.h"

namespace fovea {

// The maps of `pass` that `request` asks for, without pictures. INVALID_ARGUMENT explain.no_layer,
// explain.no_head, explain.too_many: more than limits::kMaxExplainedMaps. FAILED_PRECONDITION
// explain.unfit: `model` has no attention weights.
absl::StatusOr<std::vector<ExplainedMap>> ChooseMaps(const ExplainRequest& request,
                                                     const std::string& model,
                                                     const ExplainedPass& pass);

// INVALID_ARGUMENT explain.too_many: its maps' pictures have more pixels than an answer may.
absl::Status CheckPictures(PictureForm form, const Explanation& explanation);

// What drawing a picture takes besides the image.
int64_t PictureBytes(const ImageSize& image);

// Draws the maps over `image`, which is upright and was resized as `seen` says, and marks the place
// that `request` names on them, unless they stand alone. CANCELLED; UNAVAILABLE
// server.out_of_memory.
absl::Status DrawMaps(const RgbImage& image, const ImageTransform& seen,
                      const ExplainRequest& request, const CancellationPtr& cancellation,
                      Explanation* explanation);

// Plots the measures, where there are any.
absl::Status DrawMeasures(Explanation* explanation);

}  // namespace fovea
