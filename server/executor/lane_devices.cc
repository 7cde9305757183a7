#include "server/executor/lane_devices.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/executor/cpu_lane.h"
#include "server/executor/gpu.h"
#include "server/executor/gpu_lane.h"

namespace fovea {

namespace {

// Of the GPUs that a group asks for, or of all that there are. None: the CPU.
absl::StatusOr<std::vector<int>> ChooseGpus(const models::InstanceGroup& group,
                                            models::Precision precision,
                                            const std::vector<int>& gpus) {
  const std::vector<int>& chosen = group.gpus;
  if (precision == models::Precision::kInt8) {
    if (group.kind != models::InstanceKind::kGpu) return chosen;
    return FailedPrecondition("model.no_device",
                              "instance_group.kind is KIND_GPU, and models run in INT8 on the CPU "
                              "alone: leave the kind out, give KIND_CPU, or another precision");
  }
  if (gpus.empty()) {
    if (group.kind != models::InstanceKind::kGpu) return chosen;
    return FailedPrecondition("model.no_device",
                              "instance_group.kind is KIND_GPU, and this server has no GPU that "
                              "it can use: leave the kind out, or give KIND_CPU");
  }
  for (const int gpu : chosen) {
    if (std::ranges::find(gpus, gpu) != gpus.end()) continue;
    return FailedPrecondition("model.no_device",
                              absl::StrCat("instance_group.gpus names GPU ", gpu,
                                           ", and this server has ", absl::StrJoin(gpus, ", ")));
  }
  return chosen.empty() ? gpus : chosen;
}

}  // namespace

absl::StatusOr<LaneArrangement> ArrangeLanes(const models::InstanceGroup& group,
                                             models::Precision precision, int threads,
                                             const std::vector<int>& gpus, int max_batch_size) {
  if (group.kind != models::InstanceKind::kCpu) {
    LaneArrangement arrangement;
    FOVEA_ASSIGN_OR_RETURN(arrangement.gpus, ChooseGpus(group, precision, gpus));
    arrangement.lanes = group.count > 0 ? group.count : limits::kBatchesPerGpu;
    if (!arrangement.gpus.empty()) return arrangement;
  }
  if (group.threads > 0) {
    return LaneArrangement{.lanes = std::max(1, group.count),
                           .threads_per_batch = {std::min(group.threads, threads)}};
  }
  if (group.count > 0) {
    return LaneArrangement{.lanes = group.count,
                           .threads_per_batch = {std::max(1, threads / group.count)}};
  }
  const int most_lanes = std::min({threads, max_batch_size, limits::kMaxInstances});
  const int fewest = (threads + most_lanes - 1) / most_lanes;
  LaneArrangement arrangement{.lanes = threads / fewest, .threads_per_batch = {}};
  for (int on = fewest; on < threads; on *= 2) arrangement.threads_per_batch.push_back(on);
  arrangement.threads_per_batch.push_back(threads);
  return arrangement;
}

std::vector<std::unique_ptr<LaneDevice>> MakeLaneDevices(const LaneArrangement& arrangement,
                                                         const LaneDeviceOptions& options) {
  std::vector<std::unique_ptr<LaneDevice>> devices;
  for (const int number : arrangement.gpus) {
    const auto gpu = std::ranges::find(options.gpus, number, &Gpu::number);
    FOVEA_CHECK(gpu != options.gpus.end());
    devices.push_back(MakeGpuDevice(*gpu));
  }
  if (devices.empty()) {
    devices.push_back(MakeCpuDevice({.threads = options.threads,
                                     .lanes = arrangement.lanes,
                                     .threads_per_batch = arrangement.threads_per_batch,
                                     .available_memory = options.available_memory}));
  }
  return devices;
}

}  // namespace fovea
