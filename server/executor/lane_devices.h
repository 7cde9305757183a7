// The devices of this server, by what a model's description asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "model_zoo/instance_group.h"
#include "server/executor/lane.h"

namespace fovea {

struct LaneDeviceOptions {
  int threads = 1;  // of the CPU, for all models together
  // Bytes of the machine's memory that batches may use, asked when a model is loaded; null, or
  // nothing: not known.
  std::function<std::optional<int64_t>()> available_memory;
};

// Threads of the CPU inside one operator of each instance.
int ThreadsPerInstance(const models::InstanceGroup& group, int threads);

// What a model with such instances runs on. FAILED_PRECONDITION model.no_device where this server
// has none of the kind.
absl::StatusOr<std::unique_ptr<LaneDevice>> MakeLaneDevice(const models::InstanceGroup& group,
                                                           const LaneDeviceOptions& options);

}  // namespace fovea
