#include "server/scheduler/forecast.h"

#include <algorithm>

namespace fovea {

Nanos PredictFinish(const Outlook& outlook, const LatencyModel& latency) {
  if (outlook.images_queued == 0 && outlook.other_shapes_ahead == 0 && outlook.competing.empty()) {
    return std::max(outlook.free_at, outlook.ready_at) + latency.Fast(outlook.images);
  }
  const int max = outlook.max_batch_size;
  const int round = max * outlook.parallel_batches;
  int rounds_ahead = outlook.images_ahead / round;
  const int left_over = outlook.images_ahead % round / outlook.parallel_batches;
  if (left_over + outlook.images > max) ++rounds_ahead;  // they do not fit in with it
  const int peers = outlook.images_queued / outlook.parallel_batches;
  const int own_batch = rounds_ahead > 0 ? max : std::min(max, peers + outlook.images);
  const Nanos time_ahead =
      rounds_ahead * latency.Slow(max) + outlook.other_shapes_ahead / outlook.parallel_batches;
  const Nanos own_time = time_ahead + latency.Slow(own_batch);

  const Nanos own_device_time = own_time * outlook.parallel_batches * outlook.threads_per_batch;
  Nanos competing_device_time = 0;
  for (const Outlook::Competitor& other : outlook.competing) {
    competing_device_time +=
        std::min(other.device_time, static_cast<Nanos>(own_device_time * other.share));
  }
  const Nanos turn = outlook.free_at + time_ahead + competing_device_time / outlook.device_threads;
  return std::max(turn, outlook.ready_at) + latency.Slow(own_batch);
}

}  // namespace fovea
