// The threads that decode and resize.
#pragma once

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"
#include "server/core/status.h"
#include "server/imaging/pixel_budget.h"

namespace fovea {

struct ImagingPoolOptions {
  int threads = 1;        // as many as cores: decoding keeps a core busy
  int max_queued = 1024;  // tasks that may wait; turn it down to refuse sooner under overload
  int64_t memory_bytes = int64_t{512}
                         << 20;  // of decoded pixels at once; turn it up for large images
  // Added to the threads' nice value, 0 to 19: running models come first, because a batch keeps
  // many requests waiting.
  int niceness = 5;
};

// One image's, or one request's, work. Moves only.
struct ImagingTask {
  // Called exactly once on one of the pool's threads. `turn` says whether the work is still wanted:
  // OK, CANCELLED queue.cancelled or DEADLINE_EXCEEDED queue.expired; with an error only the caller
  // is to be told.
  absl::AnyInvocable<void(const absl::Status& turn)> run;
  CancellationPtr cancellation;  // may be null
  Nanos deadline = kNever;
};

// Thread-safe. First come, first served.
class ImagingPool {
 public:
  // INVALID_ARGUMENT imaging.bad_options, INTERNAL imaging.no_thread. `clock` outlives the pool.
  static absl::StatusOr<std::unique_ptr<ImagingPool>> Create(const ImagingPoolOptions& options,
                                                             const Clock& clock);

  // Runs what is queued, then ends. Nothing may be submitted any more.
  ~ImagingPool();

  // Returns at once. After OK the task is the pool's, and `task.run` will be called. After
  // UNAVAILABLE image.queue_full the task is left as it was, and its caller is told by whoever has
  // it.
  absl::Status Submit(ImagingTask&& task);

  // What decoding on these threads takes its memory from.
  PixelBudget& budget() { return budget_; }

  int queued() const;

 private:
  ImagingPool(const ImagingPoolOptions& options, const Clock& clock);
  absl::Status Start();
  void Work();
  absl::Status Turn(const ImagingTask& task) const;

  const ImagingPoolOptions options_;
  const Clock& clock_;
  PixelBudget budget_;
  mutable Mutex mutex_;
  CondVar work_or_stop_;
  std::deque<ImagingTask> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

}  // namespace fovea
