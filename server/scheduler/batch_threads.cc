#include "server/scheduler/batch_threads.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "absl/container/inlined_vector.h"
#include "base/check.h"

namespace fovea {
namespace {

// What batches on fewer threads may take longer, all in all, and still be preferred: a hiccup in
// the latest runs is to change nothing.
constexpr double kAboutAsWell = 1.05;

int DivideUp(int a, int b) { return (a + b - 1) / b; }

// What a batch takes on `threads`, as the curves let hope.
double Hoped(const AllowedThreads& allowed, const LatencyModels::Shape& curves, int threads,
             int images, Nanos now) {
  const LatencyModel& own = curves.On(threads);
  if (own.Fresh(now)) return static_cast<double>(own.Typical(images));
  std::optional<double> best;
  if (own.least() > 0) best = own.Typical(images);
  for (const int others : allowed.threads) {
    const LatencyModel& other = curves.On(others);
    if (!other.Fresh(now)) continue;
    const double hoped = static_cast<double>(other.Typical(images)) * others / threads;
    best = std::min(best.value_or(hoped), hoped);
  }
  return best.value_or(static_cast<double>(images) / threads);  // of any unit: nothing is measured
}

}  // namespace

int AllowedThreads::MaxImagesOfInstance(int instance) const {
  const int left = most() - instance * fewest();
  const auto above = std::ranges::upper_bound(threads, left);
  return MaxImages(above == threads.begin() ? fewest() : *std::prev(above));
}

int AllowedThreads::FewestThreadsFor(int images) const {
  FOVEA_CHECK(images >= 1 && images <= max_batch_size);
  return *std::ranges::find_if(threads, [&](int on) { return MaxImages(on) >= images; });
}

BatchPlan PlanBatch(const AllowedThreads& allowed, const BatchDemand& demand,
                    const LatencyModels::Shape& curves, Nanos now) {
  FOVEA_CHECK(demand.images >= demand.first_images && demand.free_threads >= 1);
  // Of so many in line.
  const auto most_images = [&](int threads, int images) {
    const int may = allowed.MaxImages(threads);
    const int pay = demand.fill ? may : curves.On(threads).Worthwhile(images, may, now);
    return std::max(pay, demand.first_images);
  };
  if (allowed.fewest() == allowed.most()) {
    return {allowed.most(), most_images(allowed.most(), demand.images)};
  }
  const auto in_time = [&](int threads, int images) {
    return demand.time_left == kNever || curves.On(threads).Typical(images) <= demand.time_left;
  };
  struct Option {
    BatchPlan plan;
    int late;         // the first task: 0 not, 1 only with others in its batch, 2 in any case
    double all_take;  // everything in line
  };
  absl::InlinedVector<Option, 8> options;
  const int fewest = allowed.FewestThreadsFor(demand.first_images);
  for (const int threads : allowed.threads) {
    if (threads < fewest || threads > demand.free_threads) continue;
    const int side_by_side = demand.free_threads / threads;
    const int part = DivideUp(demand.images, side_by_side);
    const int images = std::clamp(part, demand.first_images, most_images(threads, part));
    const int rounds = DivideUp(DivideUp(demand.images, images), side_by_side);
    options.push_back({.plan = {.threads = threads, .images = images},
                       .late = !in_time(threads, images) + !in_time(threads, demand.first_images),
                       .all_take = rounds * Hoped(allowed, curves, threads, images, now)});
  }
  if (options.empty()) return {.threads = fewest, .images = most_images(fewest, demand.images)};
  const Option& best = *std::ranges::min_element(options, [](const Option& a, const Option& b) {
    return std::tie(a.late, a.all_take) < std::tie(b.late, b.all_take);
  });
  if (best.late == 2) {
    for (const int threads : allowed.threads) {
      if (threads > demand.free_threads && in_time(threads, demand.first_images)) {
        return {.threads = threads, .images = most_images(threads, demand.images)};
      }
    }
  }
  return std::ranges::find_if(options,
                              [&](const Option& option) {
                                return option.late == best.late &&
                                       option.all_take <= best.all_take * kAboutAsWell;
                              })
      ->plan;
}

}  // namespace fovea
