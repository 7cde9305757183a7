#include "server/scheduler/forecast.h"

#include <algorithm>

#include "base/check.h"

namespace fovea {
namespace {

constexpr double kFewestThreadsLeft = 0.01;  // of a device that others keep busy

}  // namespace

Nanos PredictFinish(const Outlook& outlook, const LatencyModel& latency) {
  FOVEA_CHECK(outlook.free_at.size() == static_cast<size_t>(outlook.parallel_batches));
  if (outlook.images_queued == 0 && outlook.other_shapes_ahead == 0 && outlook.competing.empty()) {
    return std::max(outlook.free_at[0], outlook.ready_at) + latency.Fast(outlook.images);
  }
  const int max = outlook.images_per_batch;
  int batches_ahead = outlook.images_ahead / max;
  if (outlook.images_ahead % max + outlook.images > max) ++batches_ahead;  // they do not fit in
  const int peers = outlook.images_queued / outlook.parallel_batches;
  const int own_batch = batches_ahead > 0 ? max : std::min(max, peers + outlook.images);
  const Nanos time_ahead = batches_ahead / outlook.parallel_batches * latency.Slow(max) +
                           outlook.other_shapes_ahead / outlook.parallel_batches;
  const Nanos own_time = time_ahead + latency.Slow(own_batch);

  const double own_device_time =
      static_cast<double>(own_time) * outlook.parallel_batches * outlook.threads_per_batch;
  double threads_left = outlook.device_threads;
  for (const Outlook::Competitor& other : outlook.competing) threads_left -= other.busy_threads;
  const double time_needed = own_device_time / std::max(threads_left, kFewestThreadsLeft);
  double competing_device_time = 0;
  for (const Outlook::Competitor& other : outlook.competing) {
    competing_device_time +=
        std::min(std::max(static_cast<double>(other.device_time), time_needed * other.busy_threads),
                 own_device_time * other.share);
  }
  const Nanos free_at = outlook.free_at[batches_ahead % outlook.parallel_batches];
  const Nanos turn =
      free_at + time_ahead + static_cast<Nanos>(competing_device_time / outlook.device_threads);
  return std::max(turn, outlook.ready_at) + latency.Slow(own_batch);
}

}  // namespace fovea
