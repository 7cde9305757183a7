// When a request that comes now would be finished.
#pragma once

#include <span>

#include "server/core/clock.h"
#include "server/scheduler/latency_model.h"

namespace fovea {

// What an arriving request finds. Device time is the sum over the device's threads.
struct Outlook {
  int images = 1;  // of the arriving request
  // Of its own model and shape, in line before it or reserved and still to come; and wherever in
  // line or reserved.
  int images_ahead = 0;
  int images_queued = 0;
  Nanos other_shapes_ahead = 0;  // what its model's batches of other shapes take before it
  int images_per_batch = 1;      // of its model, as batches are made
  int parallel_batches = 1;      // of its model, that the device can run side by side
  int threads_per_batch = 1;
  int device_threads = 1;
  // When the next batches of its model can start: of each of parallel_batches, ascending.
  std::span<const Nanos> free_at;
  Nanos ready_at = 0;  // when its images are decoded, and it can be run
  // The other models that compete for the device.
  struct Competitor {
    Nanos device_time;        // that waits in its line
    double busy_threads = 0;  // of the device, lately and on average: taken to go on
    double share;             // of the device, for each 1 of this model's while both have work
  };
  std::span<const Competitor> competing;
};

// Pure. With nobody of its model before or behind it and no model that competes, the request is
// taken to be run alone, as fast as ever: turning it away would leave its place to nobody, and
// nothing would be learnt. Otherwise batches of images_per_batch go ahead of it, each where the
// next one can start, while its images may still be decoded. Then its own batch is run, with the
// batch peers that are in the queue or, where batches go ahead of it, with as many as these. A
// model that competes takes what waits in its line, or what it keeps busy for as long as this
// model's work takes on the threads that are left, whichever is more; but no more than its share.
// Every run is taken to be a slow one: under overload a request that is let in and misses its
// deadline has cost device time for nothing, while one that is turned away leaves its place to the
// next.
Nanos PredictFinish(const Outlook& outlook, const LatencyModel& latency);

}  // namespace fovea
