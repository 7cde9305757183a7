#include "server/pipeline/create_executor.h"

#include <utility>

#include "base/status.h"
#include "server/executor/torch_status.h"

namespace fovea {

absl::StatusOr<std::vector<std::unique_ptr<LaneDevice>>> DevicesOf(
    const LaneArrangement& arrangement, const ServedModel::Environment& environment) {
  const LaneDeviceOptions options{.threads = environment.device_threads,
                                  .gpus = environment.gpus,
                                  .available_memory = environment.available_memory};
  return environment.make_devices ? environment.make_devices(arrangement, options)
                                  : MakeLaneDevices(arrangement, options);
}

absl::StatusOr<std::unique_ptr<BatchExecutor>> CreateExecutor(
    const BatchExecutorOptions& options, std::unique_ptr<LaneDevice> device,
    const ServedModel::Environment& environment, const WarmUpProgress& progress) {
  auto executor = BatchExecutor::Create(options, std::move(device), environment.clock, progress);
  if (ReasonOf(executor.status()) == kDeviceLost && environment.on_gpu_lost) {
    environment.on_gpu_lost();
  }
  return executor;
}

}  // namespace fovea
