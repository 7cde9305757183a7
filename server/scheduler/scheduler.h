// Batches the requests of several models onto one device: queues per model, earliest deadline
// first; where not all can be in time, fair between models by the device time that they were
// measured to take.
//
// Two layers. The Dispatcher decides everything - what may join, what closes, who is next, what
// expires - and is a plain object that is stepped with a time: tests and simulations use it alone.
// The Device around it adds the lock, the thread of each instance and one thread for time.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/core/clock.h"
#include "server/scheduler/model_queue.h"
#include "server/scheduler/options.h"

namespace fovea {

// Thread-safe. Outlives the queues that it gave out.
class Scheduler {
 public:
  // INVALID_ARGUMENT (scheduler.bad_options), UNAVAILABLE (server.no_thread). `clock` outlives
  // the scheduler and everything that came from it.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Create(const SchedulerOptions& options,
                                                           Clock& clock);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // A queue that accepts at once. `run` is called with every batch, also while the queue drains.
  // INVALID_ARGUMENT (scheduler.bad_options), UNAVAILABLE (server.no_thread). Two queues may
  // have one name: a version that drains beside its successor.
  absl::StatusOr<std::unique_ptr<ModelQueue>> AddModel(const ModelQueueOptions& options,
                                                       BatchCallback run);
  int device_threads() const;
  // Waits until nothing of any queue is in line, on its way there or running, or until steady time
  // `until`: whether that came first. It may be over when this returns.
  bool AwaitIdle(Nanos until);

 private:
  explicit Scheduler(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  const std::shared_ptr<Device> device_;
};

}  // namespace fovea
