// How a model's pictures go through imaging: where a request stands in its lines, and what a
// picture may be.
#pragma once

#include "server/core/clock.h"
#include "server/core/model_catalog.h"
#include "server/core/request.h"
#include "server/imaging/preprocess.h"
#include "server/scheduler/options.h"

namespace fovea {

// As in the queues behind them: by its deadline, and without one by a usual one.
inline Nanos ImagingOrder(const InferenceRequest& request) {
  if (request.deadline != kNever) return request.deadline;
  return request.stages.start() + kDefaultDeadlineUs * kMicrosecond;
}

inline ImagingOptions ImagingOptionsOf(const ModelView& model) {
  return {
      .limits = {.max_encoded_bytes = model.max_image_bytes, .max_pixels = model.max_image_pixels}};
}

}  // namespace fovea
