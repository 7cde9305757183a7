// Where a request stands in imaging's lines.
#pragma once

#include "server/core/clock.h"
#include "server/core/request.h"
#include "server/scheduler/options.h"

namespace fovea {

// As in the queues behind them: by its deadline, and without one by a usual one.
inline Nanos ImagingOrder(const InferenceRequest& request) {
  if (request.deadline != kNever) return request.deadline;
  return request.stages.start() + kDefaultDeadlineUs * kMicrosecond;
}

}  // namespace fovea
