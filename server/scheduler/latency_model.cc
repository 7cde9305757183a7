#include "server/scheduler/latency_model.h"

#include <algorithm>
#include <iterator>

#include "absl/container/inlined_vector.h"
#include "base/check.h"

namespace fovea {

void LatencyModel::Record(int images, Nanos duration, Nanos now) {
  FOVEA_CHECK(images >= 1 && duration >= 0);
  std::erase_if(by_size_, [now](const auto& size) {
    return now - size.second.latest.back().ended > kMemory;
  });
  Runs& runs = by_size_[images];
  while (!runs.latest.empty() &&
         (runs.latest.size() == kRunsKept || now - runs.latest.front().ended > kMemory)) {
    runs.latest.pop_front();
  }
  runs.latest.push_back({duration, now});
  absl::InlinedVector<Nanos, kRunsKept> sorted;
  for (const Run& run : runs.latest) sorted.push_back(run.took);
  std::sort(sorted.begin(), sorted.end());
  const size_t kept = sorted.size();
  runs.fast = sorted[0];
  runs.typical = sorted[(kept - 1) / 2];
  runs.slow = sorted[(kept * 9 + 9) / 10 - 1];
  last_record_ = now;

  const auto per_image = [](const auto& size) {
    return static_cast<double>(size.second.typical) / size.first;
  };
  double best = per_image(*by_size_.begin());
  for (const auto& size : by_size_) best = std::min(best, per_image(size));
  worthwhile_ = std::ranges::find_if(by_size_, [&](const auto& size) {
                  return per_image(size) <= kHardlyMore * best;
                })->first;
}

int LatencyModel::Worthwhile(int images, int most_images, Nanos now) const {
  const int clearly_larger = std::min(2 * worthwhile_, most_images);
  if (most() < clearly_larger || by_size_.empty()) return std::min(images, most_images);
  const bool fresh = std::any_of(
      by_size_.lower_bound(clearly_larger), by_size_.end(),
      [now](const auto& size) { return now - size.second.latest.back().ended < kFresh; });
  if (!fresh && images >= clearly_larger) return std::min(images, most_images);
  return std::min({images, worthwhile_, most_images});
}

Nanos LatencyModel::Fast(int images) const {
  return Read(images, &Runs::fast, Outside::kProportional, Outside::kConstant);
}

Nanos LatencyModel::Typical(int images) const {
  return Read(images, &Runs::typical, Outside::kProportional, Outside::kProportional);
}

Nanos LatencyModel::Slow(int images) const {
  return Read(images, &Runs::slow, Outside::kConstant, Outside::kProportional);
}

bool LatencyModel::Trusted(Nanos now) const {
  return !by_size_.empty() && now - last_record_ < kTrust;
}

bool LatencyModel::Fresh(Nanos now) const {
  return !by_size_.empty() && now - last_record_ < kFresh;
}

Nanos LatencyModel::Read(int images, Nanos Runs::*reading, Outside below, Outside above) const {
  if (by_size_.empty()) return 0;
  const auto upper = by_size_.lower_bound(images);
  if (upper != by_size_.end() && upper->first == images) return upper->second.*reading;
  if (upper == by_size_.begin() || upper == by_size_.end()) {
    const auto& [size, runs] = upper == by_size_.begin() ? *upper : *std::prev(upper);
    const Outside outside = upper == by_size_.begin() ? below : above;
    return outside == Outside::kConstant ? runs.*reading : runs.*reading * images / size;
  }
  const auto lower = std::prev(upper);
  const Nanos from = lower->second.*reading;
  const Nanos to = upper->second.*reading;
  return from + (to - from) * (images - lower->first) / (upper->first - lower->first);
}

const LatencyModel& LatencyModels::Shape::On(int threads) const {
  static const LatencyModel& unmeasured = *new LatencyModel();
  const auto found = by_threads_.find(threads);
  return found == by_threads_.end() ? unmeasured : found->second;
}

Nanos LatencyModels::Shape::Fast(int images) const {
  Nanos fast = 0;
  for (const auto& [threads, curve] : by_threads_) {
    const Nanos here = curve.Fast(images);
    fast = fast == 0 ? here : std::min(fast, here);
  }
  return fast;
}

bool LatencyModels::Shape::Trusted(Nanos now) const {
  return std::ranges::any_of(by_threads_,
                             [now](const auto& curve) { return curve.second.Trusted(now); });
}

void LatencyModels::Record(const BatchSize& batch, Nanos duration, Nanos now) {
  Shape& shape = by_shape_[batch.shape_key];
  shape.by_threads_[batch.threads].Record(batch.images, duration, now);
  shape.latest_threads_ = batch.threads;
}

const LatencyModels::Shape& LatencyModels::Of(uint64_t shape_key) const {
  static const Shape& unmeasured = *new Shape();
  const auto found = by_shape_.find(shape_key);
  return found == by_shape_.end() ? unmeasured : found->second;
}

}  // namespace fovea
