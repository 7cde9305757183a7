#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "tests/bench/simulation/schedulers.h"
#include "tests/server/scheduler/simulation.h"

namespace fovea::bench {

Outcome RunDispatcher(const Workload& workload, int device_threads,
                      const DispatcherOptions& options) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> noise(0, kRunTimeNoise);
  Outcome outcome{.arrived = static_cast<int64_t>(workload.arrivals.size())};
  Simulation simulation({.device_threads = device_threads});
  Dispatcher& dispatcher = simulation.dispatcher();
  const Nanos start = simulation.now();

  double most_wanted = 0;
  for (const SimulatedModel& model : workload.models) {
    most_wanted = std::max(most_wanted, model.threads_wanted);
  }
  std::vector<QueueId> queues;
  for (const SimulatedModel& model : workload.models) {
    const QueueId queue = simulation.AddModel(
        {.max_batch_size = model.max_batch_size,
         .instances = model.instances,
         .rate_limiter_priority = options.weights_by_demand
                                      ? static_cast<int>(std::clamp<double>(
                                            std::round(most_wanted / model.threads_wanted), 1,
                                            limits::kMaxRateLimiterPriority))
                                      : 1},
        [&](const Batch& batch) {
          const auto took = static_cast<Nanos>(model.RunTime(batch.images) * noise(random));
          outcome.busy += took * 1e-9;
          return took;
        });
    for (int images = 1; images <= model.max_batch_size; ++images) {
      dispatcher.RecordLatency(queue, {.images = images}, model.RunTime(images), start);
    }
    queues.push_back(queue);
  }

  simulation.on_start = [&](QueueId, const Batch& batch) {
    ++outcome.batches;
    for (const auto& task : batch.tasks) {
      outcome.run_expired += task->deadline() <= simulation.now();
      FOVEA_CHECK(!task->Cancelled());
    }
  };
  simulation.on_done = [&](QueueId, const Batch& batch) {
    for (const auto& task : batch.tasks) {
      outcome.Answer(task->arrival(), task->deadline(), simulation.now());
    }
  };
  simulation.on_drop = [&](const Dispatcher::Dropped& dropped) {
    ++(absl::IsCancelled(dropped.why) ? outcome.cancelled : outcome.expired);
  };

  // One event at a time: a million functions that wait for their turn would take gigabytes.
  size_t next = 0;
  std::function<void()> arrive = [&] {
    const Arrival& arrival = workload.arrivals[next++];
    auto record = std::make_shared<TaskRecord>();
    record->arrival = simulation.now();
    record->deadline = simulation.now() + arrival.patience;
    const QueueId queue = queues[arrival.model];
    const absl::StatusOr<TaskId> task = simulation.Submit(queue, record);
    if (!task.ok()) {
      ++outcome.refused;
    } else if (arrival.cancels != kNever) {
      simulation.At(simulation.now() + arrival.cancels, [&simulation, queue, id = *task, record] {
        if (record->ends() == 0) simulation.Cancel(queue, id, *record);
      });
    }
    if (next < workload.arrivals.size()) simulation.At(start + workload.arrivals[next].at, arrive);
  };
  if (!workload.arrivals.empty()) simulation.At(start + workload.arrivals[0].at, arrive);
  simulation.RunToTheEnd();
  for (const QueueId queue : queues) FOVEA_CHECK(dispatcher.waiting(queue) == 0);
  return outcome;
}

}  // namespace fovea::bench
