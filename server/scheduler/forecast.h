// When a request that comes now would be finished.
#pragma once

#include <span>

#include "server/core/clock.h"
#include "server/scheduler/latency_model.h"

namespace fovea {

// What a newcomer finds. Device time is the sum over the device's threads.
struct Outlook {
  int images = 1;         // of the newcomer
  int images_ahead = 0;   // of its own model, in line before it or reserved and still to come
  int images_queued = 0;  // of its own model, wherever in line or reserved
  int max_batch_size = 1;
  int lanes = 1;  // batches of its model that the device can run side by side
  int threads_per_lane = 1;
  int device_threads = 1;
  Nanos free_at = 0;   // when the first batch of its model can start
  Nanos ready_at = 0;  // when the newcomer is decoded, and can be run
  // Device time that waits in the lines of the other models that compete for the device: each of
  // them gets as much of it as this model while both have work.
  std::span<const Nanos> competing;
};

// Pure. With nobody of its model before or behind it the newcomer is taken to be run alone, as fast
// as ever: turning it away would leave its place to nobody, and nothing would be learnt. Otherwise
// full batches go ahead of the newcomer, while it may still be decoded; then its own is run,
// with the batch peers that are in line or, where batches go ahead of it, full by then. Every run
// is taken to be a slow one: under overload a request that is let in and misses its deadline all
// the same has cost device time for nothing, while one that is turned away leaves its place to the
// next.
Nanos PredictFinish(const Outlook& outlook, const LatencyModel& latency);

}  // namespace fovea
