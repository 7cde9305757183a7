#include "server/scheduler/scheduler.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "server/scheduler/device.h"

namespace fovea {

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Create(const SchedulerOptions& options,
                                                             Clock& clock) {
  FOVEA_RETURN_IF_ERROR(Validate(options));
  auto device = std::make_shared<Device>(options, clock);
  FOVEA_RETURN_IF_ERROR(device->Startup());
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(device)));
}

Scheduler::~Scheduler() { device_->Shutdown(); }

absl::StatusOr<std::unique_ptr<ModelQueue>> Scheduler::AddModel(const ModelQueueOptions& options,
                                                                BatchCallback run) {
  FOVEA_CHECK(run != nullptr);
  FOVEA_RETURN_IF_ERROR(Validate(options, device_->options()));
  FOVEA_ASSIGN_OR_RETURN(const QueueId id, device_->AddQueue(options, std::move(run)));
  return std::unique_ptr<ModelQueue>(new ModelQueue(device_, id, options.drain_timeout_us));
}

int Scheduler::device_threads() const { return device_->options().device_threads; }

bool Scheduler::AwaitIdle(Nanos until) { return device_->AwaitIdle(until); }

}  // namespace fovea
