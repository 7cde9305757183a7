#include "server/executor/lane_devices.h"

#include <algorithm>

#include "base/limits.h"
#include "base/status.h"
#include "server/executor/cpu_lane.h"

namespace fovea {

LaneArrangement ArrangeLanes(const models::InstanceGroup& group, int threads, int max_batch_size) {
  if (group.threads > 0) {
    return {.lanes = std::max(1, group.count),
            .threads_per_batch = {std::min(group.threads, threads)}};
  }
  if (group.count > 0) {
    return {.lanes = group.count, .threads_per_batch = {std::max(1, threads / group.count)}};
  }
  if (group.kind == models::InstanceKind::kGpu) return {.lanes = 1, .threads_per_batch = {threads}};
  const int most_lanes = std::min({threads, max_batch_size, limits::kMaxInstances});
  const int fewest = (threads + most_lanes - 1) / most_lanes;
  LaneArrangement arrangement{.lanes = threads / fewest, .threads_per_batch = {}};
  for (int on = fewest; on < threads; on *= 2) arrangement.threads_per_batch.push_back(on);
  arrangement.threads_per_batch.push_back(threads);
  return arrangement;
}

absl::StatusOr<std::unique_ptr<LaneDevice>> MakeLaneDevice(const models::InstanceGroup& group,
                                                           const LaneArrangement& arrangement,
                                                           const LaneDeviceOptions& options) {
  switch (group.kind) {
    case models::InstanceKind::kGpu:
      return FailedPrecondition("model.no_device",
                                "instance_group.kind is KIND_GPU, and this server has no GPU that "
                                "it can use: leave the kind out, or give KIND_CPU");
    case models::InstanceKind::kAuto:
    case models::InstanceKind::kCpu:
      break;
  }
  return MakeCpuDevice({.threads = options.threads,
                        .lanes = arrangement.lanes,
                        .threads_per_batch = arrangement.threads_per_batch,
                        .available_memory = options.available_memory});
}

}  // namespace fovea
