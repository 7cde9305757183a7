#include "server/scheduler/forecast.h"

#include <algorithm>

namespace fovea {

Nanos PredictFinish(const Outlook& outlook, const LatencyModel& latency) {
  const int round = outlook.max_batch_size * outlook.lanes;
  int rounds_ahead = outlook.images_ahead / round;
  int own_batch = outlook.images + outlook.images_ahead % round / outlook.lanes;
  if (own_batch > outlook.max_batch_size) {
    ++rounds_ahead;
    own_batch = outlook.images;
  }
  const Nanos own_time =
      rounds_ahead * latency.Typical(outlook.max_batch_size) + latency.Typical(own_batch);

  const Nanos own_device_time = own_time * outlook.lanes * outlook.threads_per_lane;
  Nanos rivals_device_time = 0;
  for (Nanos rival : outlook.rivals) rivals_device_time += std::min(rival, own_device_time);
  return outlook.free_at + own_time + rivals_device_time / outlook.device_threads;
}

}  // namespace fovea
