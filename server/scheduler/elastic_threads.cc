#include "server/scheduler/elastic_threads.h"

#include <algorithm>
#include <compare>

#include "absl/container/inlined_vector.h"
#include "base/check.h"

namespace fovea {
namespace {

// What batches on fewer threads may take longer, all in all, and still be preferred: a hiccup in
// the latest runs is to change nothing.
constexpr double kAboutAsWell = 1.05;

int DivideUp(int a, int b) { return (a + b - 1) / b; }

}  // namespace

int ThreadChoice::FewestFor(int images) const {
  FOVEA_CHECK(images >= 1 && images <= max_batch_size);
  return *std::ranges::find_if(threads, [&](int on) { return Room(on) >= images; });
}

ThreadShare ChooseThreads(const ThreadChoice& choice, const ThreadDemand& demand,
                          const LatencyModels::Shape& curves) {
  FOVEA_CHECK(demand.images >= demand.first_images && demand.free_threads >= 1);
  if (choice.fewest() == choice.most()) return {choice.most(), choice.max_batch_size};
  struct Option {
    ThreadShare share;
    Nanos first_takes;  // a batch of the first task alone
    Nanos batch_takes;
    double all_take;  // everything in line
    // How late the first task is: not, only with others in its batch, or in any case.
    int lateness(Nanos left) const { return (batch_takes > left) + (first_takes > left); }
  };
  absl::InlinedVector<Option, 8> options;
  bool measured = true;
  const int fewest = choice.FewestFor(demand.first_images);
  for (const int threads : choice.threads) {
    if (threads < fewest || threads > demand.free_threads) continue;
    const int side_by_side = demand.free_threads / threads;
    const int images = std::clamp(DivideUp(demand.images, side_by_side), demand.first_images,
                                  choice.Room(threads));
    const LatencyModel& curve = curves.On(threads);
    measured &= curve.least() > 0;
    options.push_back(
        {.share = {.threads = threads, .images = images},
         .first_takes = curve.Typical(demand.first_images),
         .batch_takes = curve.Typical(images),
         .all_take = static_cast<double>(DivideUp(DivideUp(demand.images, images), side_by_side))});
  }
  if (options.empty()) return {.threads = fewest, .images = choice.Room(fewest)};
  for (Option& option : options) {
    option.all_take *= measured ? static_cast<double>(option.batch_takes)
                                : static_cast<double>(option.share.images) / option.share.threads;
  }
  const auto lateness = [&](const Option& option) {
    return measured && demand.left != kNever ? option.lateness(demand.left) : 0;
  };
  const Option& best = *std::ranges::min_element(options, [&](const Option& a, const Option& b) {
    return std::pair(lateness(a), a.all_take) < std::pair(lateness(b), b.all_take);
  });
  return std::ranges::find_if(options,
                              [&](const Option& option) {
                                return lateness(option) == lateness(best) &&
                                       option.all_take <= best.all_take * kAboutAsWell;
                              })
      ->share;
}

}  // namespace fovea
