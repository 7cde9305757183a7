// The threads that decode and resize, and do what is left for each image when its model has run.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/memory_budget.h"
#include "server/core/mutex.h"
#include "server/imaging/imaging_schedule.h"

namespace fovea {

struct ImagingPoolOptions {
  int threads = 1;  // as many as cores: decoding keeps a core busy
  // Images that may wait, of all models; where so many do, only models with less than an equal part
  // of it get more in. Turn it down to refuse sooner under overload.
  int max_queued = limits::kMaxImagingQueue;
  // That decoding may use at once: an image waits until what it needs is there. Turn it up for
  // large images.
  int64_t memory_bytes = int64_t{512} << 20;
  // Added to the threads' nice value, 0 to 19: running models come first, because a batch keeps
  // many requests waiting.
  int niceness = 5;
};

// What became of one image's work.
struct ImagingOutcome {
  // NOLINTNEXTLINE(google-explicit-constructor): most work waits for nothing.
  ImagingOutcome(bool decoded, Nanos waited = 0) : decoded(decoded), waited(waited) {}
  bool decoded;
  Nanos waited;  // of the time it took, for memory: not learnt as decoding
};

// One image's work. Moves only.
struct ImagingTask {
  // Called exactly once on one of the pool's threads. `turn` says whether the work is still wanted:
  // OK, CANCELLED queue.cancelled, DEADLINE_EXCEEDED queue.expired or queue.unreachable_deadline;
  // with an error only the caller is to be told.
  absl::AnyInvocable<ImagingOutcome(const absl::Status& turn)> run;
  ImagingOutline outline;
  CancellationPtr cancellation;  // may be null
  Nanos deadline = kNever;
};

class ImagingLine;

// Thread-safe. Which image is next is ImagingSchedule's decision.
class ImagingPool {
 public:
  // INVALID_ARGUMENT imaging.bad_options, UNAVAILABLE server.no_thread. `clock` outlives the pool.
  static absl::StatusOr<std::unique_ptr<ImagingPool>> Create(const ImagingPoolOptions& options,
                                                             Clock& clock);

  // Runs what is queued, then ends the threads: nothing is submitted any more. Lines may outlive
  // this. Later calls do nothing.
  void Stop();
  // Stops. Every line is gone.
  ~ImagingPool();

  // A model's line, which the pool outlives. `on_saved` is called, on a thread of the pool, with
  // what an image would hardly have taken less than that is not decoded, because nobody waits for
  // it any more when its turn comes; where that is not known, it is not called. It lives as long as
  // the images' requests. May be null.
  std::unique_ptr<ImagingLine> AddLine(std::function<void(Nanos)> on_saved = nullptr);

  // What decoding on these threads takes its memory from.
  MemoryBudget& budget() { return budget_; }

  int queued() const;

 private:
  friend class ImagingLine;

  ImagingPool(const ImagingPoolOptions& options, Clock& clock);
  absl::Status Start();
  void Work();
  // Why the task is not to be run now that its turn has come; OK when it is.
  absl::Status Turn(ImagingTaskId id, const ImagingTask& task, Nanos now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ImagingPoolOptions options_;
  Clock& clock_;
  MemoryBudget budget_;
  mutable Mutex mutex_;
  CondVar work_or_stop_;
  ImagingSchedule schedule_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ImagingTaskId, ImagingTask> tasks_ ABSL_GUARDED_BY(mutex_);  // in line
  absl::flat_hash_map<ImagingLineId, std::function<void(Nanos)>> on_saved_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the rest
};

// Thread-safe. Destroyed when none of its images is in line any more.
class ImagingLine {
 public:
  ~ImagingLine();
  ImagingLine(const ImagingLine&) = delete;
  ImagingLine& operator=(const ImagingLine&) = delete;

  // Takes all images of a request or none, and returns at once. After OK the tasks are the pool's,
  // and each `run` will be called. After UNAVAILABLE image.queue_full they are left as they were,
  // and their caller is told by whoever has them.
  absl::Status Submit(std::span<ImagingTask> tasks);
  absl::Status Submit(ImagingTask&& task) { return Submit(std::span(&task, 1)); }
  // Takes the last work on images whose model has run, however many wait: what would come of
  // refusing it now. Where the pool has stopped it is done here.
  void SubmitLast(ImagingTask task);

  // What work on its images takes its memory from.
  MemoryBudget& budget() const { return pool_.budget_; }

  // When images that come now would all be decoded, as far as can be told (see ImagingSchedule).
  Nanos Forecast(int priority, Nanos order, std::span<const ImagingWork> images) const;

 private:
  friend class ImagingPool;
  ImagingLine(ImagingPool& pool, ImagingLineId id) : pool_(pool), id_(id) {}

  ImagingPool& pool_;
  const ImagingLineId id_;
};

}  // namespace fovea
