// What an arriving request would meet in the queue: the Dispatcher's state turned into an Outlook.
#include <algorithm>
#include <optional>

#include "server/scheduler/dispatcher.h"
#include "server/scheduler/forecast.h"

namespace fovea {

Nanos Dispatcher::FreeAt(const Queue& queue, Nanos now) const {
  struct End {
    Nanos at;
    int threads;
  };
  absl::InlinedVector<End, 16> ends;
  Nanos instance_free = queue.running < queue.options.instances ? now : kNever;
  for (const auto& [id, other] : queues_) {
    for (const std::optional<Run>& run : other.instances) {
      if (!run.has_value()) continue;
      const Nanos took = other.latency.Of(run->batch.shape_key).Typical(run->batch.images);
      const Nanos at = std::max(now, run->started_at + took);
      ends.push_back({at, other.options.threads_per_instance});
      if (id == queue.id) instance_free = std::min(instance_free, at);
    }
  }
  std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.at < b.at; });
  Nanos device_free = now;
  int free_threads = free_threads_;
  for (const End& end : ends) {
    if (free_threads >= queue.options.threads_per_instance) break;
    free_threads += end.threads;
    device_free = end.at;
  }
  return std::max(instance_free, device_free);
}

Nanos Dispatcher::TimeInLine(const Queue& queue, std::optional<uint64_t> except) {
  const int batch = queue.options.max_batch_size;
  Nanos time = 0;
  queue.line.ForEachShape([&](uint64_t shape_key, int images) {
    if (shape_key == except) return;
    const LatencyModel& latency = queue.latency.Of(shape_key);
    const int rest = images % batch;
    time += images / batch * latency.Typical(batch) + (rest > 0 ? latency.Typical(rest) : 0);
  });
  return time;
}

Nanos Dispatcher::Forecast(const Queue& queue, const TaskOutline& outline, Nanos now) const {
  const auto most_threads = [&](const Queue& one) {
    return std::min(one.options.instances * one.options.threads_per_instance,
                    options_.device_threads);
  };
  int wanted_threads = most_threads(queue);
  absl::InlinedVector<Outlook::Competitor, 8> competing;
  for (const auto& [id, other] : queues_) {
    if (id == queue.id || other.line.empty()) continue;
    wanted_threads += most_threads(other);
    competing.push_back({.device_time = TimeInLine(other) * other.options.threads_per_instance,
                         .share = static_cast<double>(queue.options.rate_limiter_priority) /
                                  other.options.rate_limiter_priority});
  }
  if (wanted_threads <= options_.device_threads) competing.clear();  // there is room for all
  const int threads = queue.options.threads_per_instance;
  // Those of other shapes are taken to be spread evenly over the line; who holds a place, to be of
  // this shape.
  const int line = queue.line.images();
  const int others = line - queue.line.ImagesOf(outline.shape_key);
  const int before = queue.line.ImagesBefore(outline.priority, outline.deadline);
  const double share_before = line > 0 ? static_cast<double>(before) / line : 0;
  const int others_before = static_cast<int>(others * share_before);
  const Nanos others_time =
      others_before > 0 ? static_cast<Nanos>(TimeInLine(queue, outline.shape_key) * share_before)
                        : 0;
  return PredictFinish(
      {.images = outline.images,
       .images_ahead =
           before - others_before + queue.reserved.ImagesBefore(outline.priority, outline.deadline),
       .images_queued = line - others + queue.reserved.images(),
       .other_shapes_ahead = others_time,
       .max_batch_size = queue.options.max_batch_size,
       .parallel_batches = std::min(queue.options.instances, options_.device_threads / threads),
       .threads_per_batch = threads,
       .device_threads = options_.device_threads,
       .free_at = FreeAt(queue, now),
       .ready_at = outline.ready_at,
       .competing = competing},
      queue.latency.Of(outline.shape_key));
}

}  // namespace fovea
