#include "server/executor/lane_devices.h"

#include <algorithm>

#include "base/status.h"
#include "server/executor/cpu_lane.h"

namespace fovea {

int ThreadsPerInstance(const models::InstanceGroup& group, int threads) {
  if (group.threads > 0) return std::min(group.threads, threads);
  return std::max(1, threads / group.count);
}

absl::StatusOr<std::unique_ptr<LaneDevice>> MakeLaneDevice(const models::InstanceGroup& group,
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
                        .instances = group.count,
                        .threads_per_lane = ThreadsPerInstance(group, options.threads),
                        .available_memory = options.available_memory});
}

}  // namespace fovea
