// The devices of this server, by what a model's description asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "model_zoo/instance_group.h"
#include "model_zoo/model_description.h"
#include "server/executor/gpus.h"
#include "server/executor/lane.h"

namespace fovea {

struct LaneDeviceOptions {
  int threads = 1;  // of the CPU, for all models together
  Gpus gpus;        // that there are
  // Bytes of the machine's memory that batches may use, asked when a model is loaded; null, or
  // nothing: not known.
  std::function<std::optional<int64_t>()> available_memory;
};

// On what a model's batches run, and how they share it.
struct LaneArrangement {
  std::vector<int> gpus;  // their numbers, ascending; empty: the CPU
  int lanes = 1;          // on each
  // Ascending. One: each batch gets as many. Several: the scheduler chooses for each batch, and the
  // lanes are as many as run side by side on the fewest.
  std::vector<int> threads_per_batch = {1};
};

// `threads` >= 1, of the CPU; `gpus`, the numbers of those that there are, ascending;
// `max_batch_size` >= 1. FAILED_PRECONDITION model.no_device where the group asks for what this
// server does not have, or for GPUs in INT8, in which models run on the CPU alone: also where the
// group leaves it open.
//   On the CPU, where the group gives neither a count nor threads, batches may have different
// numbers of threads: by doubling, from as many as leave a lane for each of them up to all. There
// are no more lanes than `max_batch_size`, so that with an image on each no more are held than an
// operator has allowed.
absl::StatusOr<LaneArrangement> ArrangeLanes(const models::InstanceGroup& group,
                                             models::Precision precision, int threads,
                                             const std::vector<int>& gpus, int max_batch_size);

// What a model that is arranged so runs on: the CPU, or each of the GPUs.
std::vector<std::unique_ptr<LaneDevice>> MakeLaneDevices(const LaneArrangement& arrangement,
                                                         const LaneDeviceOptions& options);

}  // namespace fovea
