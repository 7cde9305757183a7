// What the fake runners of experiments have in common: they keep a request until the test answers
// it. One at a time.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/cancellation.h"
#include "server/core/comparison.h"
#include "server/core/testing/notification.h"

namespace fovea {

template <typename Request, typename Outcome>
class FakeExperiment {
 public:
  // Once it has been asked.
  const Request& request() {
    asked_.Wait();
    return request_;
  }
  void Tell(int done, int total, std::vector<TimeSoFar> so_far = {}) {
    asked_.Wait();
    progress_({.phase = ComparisonProgress::Phase::kMeasuring,
               .done = done,
               .total = total,
               .so_far = std::move(so_far)});
  }
  void Answer(absl::StatusOr<Outcome> outcome) {
    asked_.Wait();
    progress_ = nullptr;
    std::exchange(done_, nullptr)(std::move(outcome));
  }
  void AwaitCancelled() { cancelled_.Wait(); }

 protected:
  void Keep(Request request, CancellationPtr cancellation, ProgressListener progress,
            std::function<void(absl::StatusOr<Outcome>)> done) {
    request_ = std::move(request);
    cancellation_ = std::move(cancellation);
    progress_ = std::move(progress);
    done_ = std::move(done);
    cancellation_->OnCancel([this] { cancelled_.Notify(); });
    asked_.Notify();
  }

 private:
  Notification asked_, cancelled_;
  Request request_;
  CancellationPtr cancellation_;
  ProgressListener progress_;
  std::function<void(absl::StatusOr<Outcome>)> done_;
};

}  // namespace fovea
