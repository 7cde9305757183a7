// What an arriving request would meet in the queue: the Dispatcher's state turned into an Outlook.
#include <algorithm>
#include <optional>

#include "server/scheduler/dispatcher.h"
#include "server/scheduler/forecast.h"

namespace fovea {
namespace {

// A model with nothing in line competes if it keeps at least this many threads busy.
constexpr double kFewestBusyThreads = 0.01;
// Of the device, that others keep busy before they decide how many threads a long line gets.
constexpr double kBusyShare = 0.1;

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
      // What makes way is taken to be over.
      const Nanos at = run->idle_only ? now : std::max(now, run->started_at + took);
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
  // Those of other shapes are taken to be spread evenly over the line; who holds a place, to be of
  // this shape.
  const int line = queue.line.images();
  const int other_shapes = line - queue.line.ImagesOf(outline.shape_key);
  const int before = queue.line.ImagesBefore(outline.priority, outline.deadline);
  const double share_before = line > 0 ? static_cast<double>(before) / line : 0;
  const int other_shapes_before = static_cast<int>(other_shapes * share_before);
  const auto other_shapes_time =
      other_shapes_before > 0
          ? static_cast<Nanos>(DeviceTimeInLine(queue, outline.shape_key) * share_before)
          : Nanos{0};
  const int images_ahead = before - other_shapes_before +
                           queue.reserved.ImagesBefore(outline.priority, outline.deadline);
  const Queue::FullBatch full = queue.LatestFullBatch(outline.shape_key);

  const auto most_threads = [&](const Queue& one) {
    return std::min(one.options.instances * one.allowed_threads().most(), options_.device_threads);
  };
  int wanted_threads = most_threads(queue);
  double busy_threads = 0;
  // Who is in the next batch waits for what others have in line now; for what they usually take
  // besides, who is behind it.
  const bool in_next_batch = images_ahead + outline.images <= full.images;
  absl::InlinedVector<Outlook::Competitor, 32> competing;
  for (const auto& [id, other] : queues_) {
    if (id == queue.id) continue;
    const bool counts = !in_next_batch && other.state == QueueState::kAccepting;
    const double busy = counts ? other.busy_threads.average(now) : 0;
    if (other.line.empty() && busy < kFewestBusyThreads) continue;
    wanted_threads += most_threads(other);
    busy_threads += busy;
    competing.push_back({.device_time = DeviceTimeInLine(other),
                         .busy_threads = busy,
                         .share = static_cast<double>(queue.options.rate_limiter_priority) /
                                  other.options.rate_limiter_priority});
  }
  if (wanted_threads <= options_.device_threads) competing.clear();  // there is room for all
  Outlook outlook{.images = outline.images,
                  .images_ahead = images_ahead,
                  .images_queued = line - other_shapes + queue.reserved.images(),
                  .device_threads = options_.device_threads,
                  .ready_at = outline.ready_at,
                  .competing = competing};
  // Who finds nobody may run on any number of threads, measured lately or not. Otherwise only what
  // was measured lately counts: an old curve may promise too much. Behind a device full of its
  // model, and beside others that are busy, it is the latest batch's number of threads: the others
  // may never leave more.
  const bool alone = outlook.images_queued == 0 && other_shapes_time == 0 && competing.empty();
  const bool as_latest = images_ahead >= queue.options.max_batch_size && !competing.empty() &&
                         busy_threads >= kBusyShare * options_.device_threads &&
                         outline.images <= full.images && full.latency.Trusted(now);
  // As Ask decides it; who used the device lately will have work again.
  const bool fills =
      !competing.empty() || queue.FillsBatches(line + queue.reserved.images() + outline.images);
  const LatencyModels::Shape& curves = queue.latency.Of(outline.shape_key);
  Nanos finish = kNever;
  for (const int threads : queue.options.threads_per_batch) {
    if (as_latest && threads != full.threads) continue;
    const LatencyModel& latency = curves.On(threads);
    if (latency.least() == 0 || !(alone || latency.Trusted(now))) continue;
    const int most = queue.allowed_threads().MaxImages(threads);
    if (most < outline.images) continue;
    outlook.images_per_batch =
        fills ? most
              : std::max(latency.Worthwhile(images_ahead + outline.images, most, now),
                         outline.images);
    outlook.other_shapes_ahead = other_shapes_time / threads;
    const Starts starts = NextStarts(queue, threads, now);
    outlook.parallel_batches = static_cast<int>(starts.size());
    outlook.threads_per_batch = threads;
    outlook.free_at = starts;
    finish = std::min(finish, PredictFinish(outlook, latency));
  }
  return finish == kNever ? now : finish;  // nothing is known that could turn it away
}

}  // namespace fovea
