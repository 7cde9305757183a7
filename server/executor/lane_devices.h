// The devices of this server, by what a model's description asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

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

// How a model's batches share the CPU's threads.
struct LaneArrangement {
  int lanes = 1;
  // Ascending. One: each batch gets as many. Several: the scheduler chooses for each batch, and the
  // lanes are as many as run side by side on the fewest.
  std::vector<int> threads_per_batch = {1};
};

// `threads` >= 1, of the device, and `max_batch_size` >= 1. Where the group gives neither a count
// nor threads, batches may have different numbers of threads: by doubling, from as many as leave a
// lane for each of them up to all. There are no more lanes than `max_batch_size`, so that with an
// image on each no more are held than an operator has allowed.
LaneArrangement ArrangeLanes(const models::InstanceGroup& group, int threads, int max_batch_size);

// What a model with such instances runs on. FAILED_PRECONDITION model.no_device where this server
// has none of the kind.
absl::StatusOr<std::unique_ptr<LaneDevice>> MakeLaneDevice(const models::InstanceGroup& group,
                                                           const LaneArrangement& arrangement,
                                                           const LaneDeviceOptions& options);

}  // namespace fovea
