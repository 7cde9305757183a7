// How many images of a model are under way at a time.
#pragma once

#include <cmath>
#include <optional>

#include "server/core/clock.h"

namespace fovea {

// Not thread-safe. A moving average over arrivals of what each finds, itself among it. Who sends
// its next request when it has its answer is one image in line whenever a batch starts, however
// many callers do so; the average tells them from one who is alone.
class ConcurrencyEstimate {
 public:
  // A task comes while `others` images are in line or run. `alone_after`: it is taken to be alone
  // where nothing has run for so long, and the average starts anew; callers of the kind above leave
  // the device idle only for a moment.
  void OnArrival(int images, int others, Nanos alone_after, Nanos now) {
    const bool alone = others == 0 && (!last_done_ || now - *last_done_ >= alone_after);
    average_ = alone ? images : average_ + kWeight * (others + images - average_);
  }
  void OnBatchDone(Nanos now) { last_done_ = now; }

  int images() const { return static_cast<int>(std::lround(average_)); }

 private:
  // After eight arrivals nine tenths of a change are seen.
  static constexpr double kWeight = 0.25;

  double average_ = 0;
  std::optional<Nanos> last_done_;
};

}  // namespace fovea
