// Copies of requests, run while the device has nothing else to do.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "server/compare/live/answer_difference.h"
#include "server/compare/live/running_experiment.h"
#include "server/core/cancellation.h"
#include "server/core/clock.h"
#include "server/core/mutex.h"
#include "server/core/request.h"
#include "server/core/request_memory.h"

namespace fovea {

// A thread that runs copies one at a time, each run (ArmTests::CopyRun) when the device is idle,
// and gives those up that would wait. A copy that runs ends between two blocks where any request
// comes (Task::idle_only). Thread-safe.
class ShadowCopies {
 public:
  struct Options {
    int device_threads = 1;
    // As Scheduler::AwaitIdle, of all devices.
    std::function<bool(Nanos until)> await_idle;
    // Called on its thread every `tick`, and when Wake is.
    std::function<void()> on_tick;
    Nanos tick = kSecond;
    // How long a copy waits until the device is idle, and how long Stop waits for the copy; the
    // batch that its request was in is just being answered.
    Nanos most_wait = 50 * kMillisecond;
  };
  // UNAVAILABLE server.no_thread. What is called, and the clock, outlive it.
  static absl::StatusOr<std::unique_ptr<ShadowCopies>> Create(Options options, Clock& clock);
  ~ShadowCopies() { Stop(); }

  // A request's copy, from when it is read until its run is over. It holds its input, and its
  // memory; whoever destroys it before it is run counts it as skipped.
  class Copy {
   public:
    ~Copy();
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;

    // What the baseline has answered: without it there is nothing to compare.
    void OnBaseline(const InferenceResponse& response);

   private:
    friend class ShadowCopies;
    Copy(ShadowCopies& copies, std::shared_ptr<RunningExperiment> experiment, size_t arm)
        : copies_(copies), experiment_(std::move(experiment)), arm_(arm) {}

    ShadowCopies& copies_;
    const std::shared_ptr<RunningExperiment> experiment_;
    const size_t arm_;
    std::unique_ptr<RequestMemory> memory_;
    std::unique_ptr<InferenceRequest> request_;  // null once its last run has begun
    VisionTask task_ = VisionTask::kClassification;
    std::optional<ComparableAnswer> baseline_;
    bool answered_ = false;
    bool counted_ = false;  // what became of it is counted
  };

  // A copy of `request`, whose input takes `input_bytes`, for `arm`, where the experiment's share
  // and the memory allow it and few others are kept; null otherwise, and for a request that is not
  // copied because it has several images or asks for a drawing.
  std::unique_ptr<Copy> TryCopy(std::shared_ptr<RunningExperiment> experiment, size_t arm,
                                const InferenceRequest& request, VisionTask task,
                                int64_t input_bytes, MemoryBudget& memory);
  // To be run, if that comes to pass soon. Returns at once.
  static void Submit(std::unique_ptr<Copy> copy);

  void Wake();
  // Gives up what waits and what runs, and makes no more. Later calls do nothing.
  void Stop();

 private:
  struct Outcome;

  ShadowCopies(Options options, Clock& clock) : options_(std::move(options)), clock_(clock) {}
  void Work();
  void Run(Copy& copy);
  // Runs `request` on the arm's model once the device is idle, until it makes way. Null: it never
  // started.
  std::shared_ptr<Outcome> RunOnce(RunningExperiment& experiment, size_t arm,
                                   std::unique_ptr<InferenceRequest> request);
  // Whether its answer differs from the baseline's; none: there is no memory to tell.
  static std::optional<bool> Differs(const Copy& copy, const InferenceResponse& response);

  const Options options_;
  Clock& clock_;
  std::atomic<int> open_ = 0;  // copies
  std::atomic<bool> stopping_ = false;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::unique_ptr<Copy>> waiting_ ABSL_GUARDED_BY(mutex_);
  CancellationPtr running_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace fovea
