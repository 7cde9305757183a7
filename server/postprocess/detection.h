// A detector's boxes in the callers' pictures.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/core/model_catalog.h"
#include "server/postprocess/postprocessor.h"

namespace fovea {

// The detections of `model`'s outputs "boxes" (FP32 [-1, most, 4] as x1, y1, x2, y2 in pixels of
// its input), "scores" (FP32 [-1, most], descending), "labels" (INT64 [-1, most]) and "counts"
// (INT64 [-1]: how many of them there are), and their masks where it has "masks" (FP32
// [-1, most, side, side]: in each box, how probable it is that a place shows the object).
// FAILED_PRECONDITION model.no_detector where it lacks one.
absl::StatusOr<std::unique_ptr<const TaskPostprocessor>> MakeDetection(
    std::shared_ptr<const ModelView> model);

}  // namespace fovea
