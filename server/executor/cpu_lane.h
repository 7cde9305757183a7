// Lanes on the CPU: each runs on its instance's thread and the threads that help it inside an
// operator.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "server/executor/lane.h"

namespace fovea {

struct CpuLaneOptions {
  int threads = 1;  // of the models together
  int lanes = 1;    // of this model
  // Inside one operator of a batch, ascending; at most `threads`.
  std::vector<int> threads_per_batch = {1};
  // Bytes of the machine's memory that batches may use, asked when a model is loaded; null, or
  // nothing: not known.
  std::function<std::optional<int64_t>()> available_memory;
};

// Every number of images up to 32, and above that steps of an eighth: oneDNN prepares itself for
// each one by itself. One that was not run is prepared by the first batch that has it.
std::vector<int> CpuWarmUpSizes(int max_batch_size);

std::unique_ptr<LaneDevice> MakeCpuDevice(const CpuLaneOptions& options);

}  // namespace fovea
