#include "server/scheduler/forecast.h"

#include <algorithm>

#include "base/check.h"

namespace fovea {
namespace {

constexpr double kLeastLeft = 0.01;  // threads, of a device that is full

}  // namespace

Nanos PredictFinish(const Outlook& outlook, const LatencyModel& latency) {
  FOVEA_CHECK(outlook.free_at.size() == static_cast<size_t>(outlook.parallel_batches));
  if (outlook.images_queued == 0 && outlook.other_shapes_ahead == 0 && outlook.competing.empty()) {
    return std::max(outlook.free_at[0], outlook.ready_at) + latency.Fast(outlook.images);
  }
  const int max = outlook.max_batch_size;
  int batches_ahead = outlook.images_ahead / max;
  if (outlook.images_ahead % max + outlook.images > max) ++batches_ahead;  // they do not fit in
  const int peers = outlook.images_queued / outlook.parallel_batches;
  const int own_batch = batches_ahead > 0 ? max : std::min(max, peers + outlook.images);
  const Nanos time_ahead = batches_ahead / outlook.parallel_batches * latency.Slow(max) +
                           outlook.other_shapes_ahead / outlook.parallel_batches;
  const Nanos own_time = time_ahead + latency.Slow(own_batch);

  const Nanos own_device_time = own_time * outlook.parallel_batches * outlook.threads_per_batch;
  // Until it is done, if the others go on as they did; each takes its share at most.
  double left = outlook.device_threads;
  for (const Outlook::Competitor& other : outlook.competing) left -= other.threads_used;
  const double until = own_device_time / std::max(left, kLeastLeft);
  Nanos competing_device_time = 0;
  for (const Outlook::Competitor& other : outlook.competing) {
    const auto coming = static_cast<Nanos>(until * other.threads_used);
    competing_device_time += std::min(std::max(other.device_time, coming),
                                      static_cast<Nanos>(own_device_time * other.share));
  }
  const Nanos free_at = outlook.free_at[batches_ahead % outlook.parallel_batches];
  const Nanos turn = free_at + time_ahead + competing_device_time / outlook.device_threads;
  return std::max(turn, outlook.ready_at) + latency.Slow(own_batch);
}

}  // namespace fovea
