#include "server/scheduler/batch_policy.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace fovea {

BatchPolicy::BatchPolicy(Options options) : options_(std::move(options)) {
  FOVEA_CHECK(options_.max_batch_size >= 1 && options_.max_queue_delay >= 0);
  std::sort(options_.preferred_batch_sizes.begin(), options_.preferred_batch_sizes.end());
}

BatchPolicy::Decision BatchPolicy::Next(const Snapshot& queue, Nanos now) const {
  FOVEA_CHECK(queue.images >= 1 && queue.first_images >= 1 && queue.latency != nullptr);
  if (!queue.device_idle) return WaitUntil{kNever};

  FOVEA_CHECK(queue.most_images >= 1 && queue.most_images <= options_.max_batch_size);

  Close close{.images = std::min(queue.images, queue.most_images), .why = CloseReason::kFull};
  const auto& preferred = options_.preferred_batch_sizes;
  const auto above = std::upper_bound(preferred.begin(), preferred.end(), queue.images);
  Nanos wait_until = now;
  if (above != preferred.begin()) {
    close = {.images = std::min(*std::prev(above), queue.most_images),
             .why = CloseReason::kPreferred};
  } else if (queue.images < queue.room) {
    const Nanos delay_left = options_.max_queue_delay - queue.longest_wait;
    const Nanos earliest = std::min(queue.first_deadline, queue.behind_deadline);
    const Nanos latest_start =
        earliest == kNever ? kNever : earliest - queue.latency->Slow(close.images);
    if (queue.draining) {
      close.why = CloseReason::kDrain;
    } else if (delay_left <= 0) {
      close.why = options_.max_queue_delay > 0 ? CloseReason::kDelay : CloseReason::kIdle;
    } else if (latest_start <= now) {
      close.why = CloseReason::kDeadline;
    } else {
      wait_until = std::min(now + delay_left, latest_start);
    }
  }
  if (wait_until > now) return WaitUntil{wait_until};

  if (const int fit = FitToDeadline(close.images, queue, now); fit < close.images) {
    close = {.images = fit, .why = CloseReason::kDeadline};
  }
  return close;
}

int BatchPolicy::FitToDeadline(int images, const Snapshot& queue, Nanos now) const {
  const auto in_time = [&](int fit, Nanos deadline) {
    return deadline == kNever || queue.latency->Typical(fit) <= deadline - now;
  };
  // A deadline that is missed however small the batch is keeps nobody out.
  const int own = std::min(images, queue.first_images);
  const Nanos first = in_time(1, queue.first_deadline) ? queue.first_deadline : kNever;
  const Nanos behind = in_time(own + 1, queue.behind_deadline) ? queue.behind_deadline : kNever;
  int fit = images;
  while (fit > own && !in_time(fit, std::min(first, behind))) --fit;
  while (fit > 1 && !in_time(fit, first)) --fit;
  return fit;
}

}  // namespace fovea
