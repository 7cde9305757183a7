// When a request that comes now would be finished.
#pragma once

#include <span>

#include "server/core/clock.h"
#include "server/scheduler/latency_model.h"

namespace fovea {

// What a newcomer finds. Device time is the sum over the device's threads.
struct Outlook {
  int images = 1;        // of the newcomer
  int images_ahead = 0;  // of its own model: in line before it, or reserved and still to come
  int max_batch_size = 1;
  int lanes = 1;  // batches of its model that the device can run side by side
  int threads_per_lane = 1;
  int device_threads = 1;
  Nanos free_at = 0;  // when the first batch of its model can start
  // Device time that waits in the lines of the other models that compete for the device: each of
  // them gets as much of it as this model while both have work.
  std::span<const Nanos> rivals;
};

// Pure. Full batches go ahead of the newcomer, whose own batch takes in what is left over.
// `latency` has measurements.
Nanos PredictFinish(const Outlook& outlook, const LatencyModel& latency);

}  // namespace fovea
