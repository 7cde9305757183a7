// What imaging did for a request that nobody waited for any more when it ended, wherever that was.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "server/core/testing/notification.h"
#include "server/pipeline/served_model.h"
#include "server/pipeline/silent_observer.h"
#include "tests/server/pipeline/pixel_request.h"
#include "tests/server/pipeline/watched_clock.h"

namespace fovea {
namespace {

constexpr int kSide = 128;  // twice the model's: the pictures are resized

struct Observed {
  std::atomic<int> times = 0;  // that work was wasted
  std::atomic<Nanos> wasted = 0, taken = 0;
  std::atomic<bool> watched = false;  // whether a test waits for `in_line`
  Notification in_line;               // a request
  std::function<void()> on_close;     // of a batch
};

class Observer final : public SilentObserver {
 public:
  explicit Observer(Observed& observed) : observed_(observed) {}
  void OnQueueDepth(int waiting, int) override {
    if (waiting > 0 && observed_.watched.exchange(false)) observed_.in_line.Notify();
  }
  void OnBatchClosed(const Batch&) override {
    if (observed_.on_close) observed_.on_close();
  }
  void OnImagingTime(Nanos time) override { observed_.taken += time; }
  void OnImagingWasted(Nanos time) override {
    ++observed_.times;
    observed_.wasted += time;
  }

 private:
  Observed& observed_;
};

class WastedImagingTest : public testing::Test {
 protected:
  void SetUp() override {
    clock_.counting = true;
    VersionToLoad parsed{.name = "model", .version = 1};
    auto spec = ParseModelSpec(
        "spec_version: 1 backbone: \"vit_demo_patch8_64\" random_weights { seed: 1 } "
        "max_batch_size: 2",
        "model");
    ASSERT_TRUE(spec.ok()) << spec.status();
    parsed.spec = *std::move(spec);
    auto created = ServedModel::Create(
        parsed, {.scheduler = *scheduler_,
                 .imaging = *imaging_,
                 .clock = clock_,
                 .observe = [this](const auto&) { return std::make_unique<Observer>(observed_); }});
    ASSERT_TRUE(created.ok()) << created.status();
    model_ = std::static_pointer_cast<ServedModel>(*created);
  }

  struct Answer {
    absl::Status status;
    StageTimes stages;

    Nanos imaging() const { return stages[Stage::kDecode] + stages[Stage::kPreprocess]; }
  };
  // `on_answer`, on the thread that has the answer.
  std::future<Answer> Send(
      int images, CancellationPtr cancellation, std::function<void()> on_answer = [] {}) {
    auto request = PixelRequest(images, kSide, clock_.Now());
    request->cancellation = std::move(cancellation);
    request->deadline = clock_.Now() + 600 * kSecond;
    auto promise = std::make_shared<std::promise<Answer>>();
    ServingModel::Infer(std::shared_ptr<const ServingModel>(std::shared_ptr<void>(), model_.get()),
                        std::move(request),
                        [promise, on_answer = std::move(on_answer)](
                            const absl::StatusOr<InferenceResponse>& response, StageTimes stages) {
                          on_answer();
                          promise->set_value({response.status(), stages});
                        });
    return promise->get_future();
  }

  // All of one image's time with its thread, once.
  void ExpectWastedOnce(const Answer& answer) {
    EXPECT_EQ(observed_.times, 1);
    EXPECT_GT(observed_.wasted, 0);
    EXPECT_LE(observed_.wasted, answer.imaging());
    EXPECT_GE(observed_.taken, observed_.wasted);
  }

  WatchedClock clock_;
  Observed observed_;
  std::unique_ptr<Scheduler> scheduler_ = *Scheduler::Create({.device_threads = 1}, clock_);
  std::unique_ptr<ImagingPool> imaging_ = *ImagingPool::Create({.threads = 1}, clock_);
  std::shared_ptr<ServedModel> model_;
};

TEST_F(WastedImagingTest, NothingWhereSomebodyWaits) {
  const Answer answer = Send(2, std::make_shared<Cancellation>()).get();
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_GT(answer.imaging(), 0);
  EXPECT_EQ(observed_.times, 0);
  EXPECT_GT(observed_.taken, 0);
  EXPECT_LE(observed_.taken, answer.imaging()) << "one thread, which the request had alone";
}

TEST_F(WastedImagingTest, OfARequestThatIsCancelledBetweenItsImages) {
  const auto cancellation = std::make_shared<Cancellation>();
  // First for the time of the first image's turn, then for when the request's images began.
  clock_.event_at = clock_.asked + 2;
  clock_.event = [&] { cancellation->Cancel(); };
  const Answer answer = Send(2, cancellation).get();
  EXPECT_EQ(ReasonOf(answer.status), "queue.cancelled");
  ExpectWastedOnce(answer);
}

TEST_F(WastedImagingTest, OfARequestThatIsCancelledInTheQueue) {
  Notification busy, go_on;
  // Answered on the model's only thread.
  auto first = Send(1, std::make_shared<Cancellation>(), [&] {
    busy.Notify();
    go_on.Wait();
  });
  busy.Wait();
  observed_.watched = true;
  const auto cancellation = std::make_shared<Cancellation>();
  std::future<Answer> second = Send(1, cancellation);
  observed_.in_line.Wait();
  cancellation->Cancel();
  const Answer answer = second.get();
  EXPECT_EQ(ReasonOf(answer.status), "queue.cancelled");
  ExpectWastedOnce(answer);
  go_on.Notify();
  EXPECT_TRUE(first.get().status.ok());
}

TEST_F(WastedImagingTest, OfARequestWhoseDeadlinePassesInItsBatch) {
  observed_.on_close = [this] { clock_.ahead = 1200 * kSecond; };
  const Answer answer = Send(1, std::make_shared<Cancellation>()).get();
  EXPECT_EQ(ReasonOf(answer.status), "request.deadline_passed");
  ExpectWastedOnce(answer);
}

}  // namespace
}  // namespace fovea
