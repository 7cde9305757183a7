// What an arriving request would meet in the queue: the Dispatcher's state turned into an Outlook.
#include <algorithm>
#include <optional>

#include "server/scheduler/dispatcher.h"
#include "server/scheduler/forecast.h"

namespace fovea {
namespace {

// Of a model of which nothing waits, threads that it must have kept busy to count.
constexpr double kLeastUse = 0.01;

}  // namespace

Dispatcher::Starts Dispatcher::NextStarts(const Queue& queue, int threads, Nanos now) const {
  struct End {
    Nanos at;
    int threads;
    bool own;  // an instance of this model's
  };
  absl::InlinedVector<End, 16> ends;
  for (const auto& [id, other] : queues_) {
    for (const std::optional<Run>& run : other.instances) {
      if (!run.has_value()) continue;
      const Nanos took =
          other.latency.Of(run->batch.shape_key, run->batch.threads).Typical(run->batch.images);
      const Nanos at = std::max(now, run->started_at + took);
      ends.push_back({at, run->batch.threads, id == queue.id});
    }
  }
  std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.at < b.at; });
  const int side_by_side = std::min(queue.options.instances, options_.device_threads / threads);
  Starts starts;
  int free_threads = free_threads_;
  int idle = queue.options.instances - queue.running;
  Nanos at = now;
  for (auto end = ends.begin();; ++end) {
    for (; free_threads >= threads && idle > 0; free_threads -= threads, --idle) {
      starts.push_back(at);
      if (static_cast<int>(starts.size()) == side_by_side) return starts;
    }
    at = end->at;
    free_threads += end->threads;
    idle += end->own ? 1 : 0;
  }
}

Nanos Dispatcher::DeviceTimeInLine(const Queue& queue, std::optional<uint64_t> except) {
  Nanos time = 0;
  queue.line.ForEachShape([&](uint64_t shape_key, int images) {
    if (shape_key == except) return;
    const Queue::FullBatch full = queue.LatestFullBatch(shape_key);
    const int rest = images % full.images;
    time += (images / full.images * full.run_time() + (rest > 0 ? full.latency.Typical(rest) : 0)) *
            full.threads;
  });
  return time;
}

Nanos Dispatcher::Forecast(const Queue& queue, const TaskOutline& outline, Nanos now) const {
  const auto most_threads = [&](const Queue& one) {
    return std::min(one.options.instances * one.allowed_threads().most(), options_.device_threads);
  };
  int wanted_threads = most_threads(queue);
  // With nobody of its model before it, it competes with what waits now alone.
  const bool waits = queue.line.images() + queue.reserved.images() > 0;
  absl::InlinedVector<Outlook::Competitor, 8> competing;
  for (const auto& [id, other] : queues_) {
    if (id == queue.id) continue;
    const double use = waits ? other.device_use.threads(now) : 0;
    if (other.line.empty() && use < kLeastUse) continue;
    wanted_threads += most_threads(other);
    competing.push_back({.device_time = DeviceTimeInLine(other),
                         .threads_used = use,
                         .share = static_cast<double>(queue.options.rate_limiter_priority) /
                                  other.options.rate_limiter_priority});
  }
  if (wanted_threads <= options_.device_threads) competing.clear();  // there is room for all
  // Those of other shapes are taken to be spread evenly over the line; who holds a place, to be of
  // this shape.
  const int line = queue.line.images();
  const int others = line - queue.line.ImagesOf(outline.shape_key);
  const int before = queue.line.ImagesBefore(outline.priority, outline.deadline);
  const double share_before = line > 0 ? static_cast<double>(before) / line : 0;
  const int others_before = static_cast<int>(others * share_before);
  const auto others_time =
      others_before > 0
          ? static_cast<Nanos>(DeviceTimeInLine(queue, outline.shape_key) * share_before)
          : Nanos{0};
  Outlook outlook{.images = outline.images,
                  .images_ahead = before - others_before +
                                  queue.reserved.ImagesBefore(outline.priority, outline.deadline),
                  .images_queued = line - others + queue.reserved.images(),
                  .device_threads = options_.device_threads,
                  .ready_at = outline.ready_at,
                  .competing = competing};
  // Who comes alone runs as is best for it, measured lately or not. Beside other models, behind
  // full batches, it waits as long as they take on as many threads as the line runs on now: the
  // others may not leave it more.
  const bool alone = outlook.images_queued == 0 && others_time == 0 && competing.empty();
  const LatencyModels::Shape& curves = queue.latency.Of(outline.shape_key);
  const Queue::FullBatch full = queue.LatestFullBatch(outline.shape_key);
  const bool as_now = !competing.empty() && outlook.images_ahead >= full.images &&
                      outline.images <= full.images && full.latency.Trusted(now);
  const bool fills =
      !competing.empty() || queue.FillsBatches(outlook.images_queued + others + outline.images);
  Nanos finish = kNever;
  for (const int threads : queue.options.threads_per_batch) {
    if (as_now && threads != full.threads) continue;
    const LatencyModel& latency = curves.On(threads);
    if (latency.least() == 0 || !(alone || latency.Trusted(now))) continue;
    const int most = queue.allowed_threads().MaxImages(threads);
    if (most < outline.images) continue;
    outlook.max_batch_size = fills ? most : std::max(latency.WorthwhileSize(most), outline.images);
    outlook.other_shapes_ahead = others_time / threads;
    const Starts starts = NextStarts(queue, threads, now);
    outlook.parallel_batches = static_cast<int>(starts.size());
    outlook.threads_per_batch = threads;
    outlook.free_at = starts;
    finish = std::min(finish, PredictFinish(outlook, latency));
  }
  return finish == kNever ? now : finish;  // nothing is known that could turn it away
}

}  // namespace fovea
