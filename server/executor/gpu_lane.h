// Lanes on a GPU: each has a stream, and two of them side by side copy while the other computes.
#pragma once

#include <memory>
#include <vector>

#include "server/executor/gpu.h"
#include "server/executor/lane.h"

namespace fovea {

// The sizes of batch for which a GPU's work is captured, descending: powers of two, and
// `max_batch_size`. A batch between them runs as the next larger one, its last images being
// whatever was there before.
std::vector<int> BatchBuckets(int max_batch_size);

std::unique_ptr<LaneDevice> MakeGpuDevice(std::shared_ptr<const Gpu> gpu);

}  // namespace fovea
