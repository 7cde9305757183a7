// The repository's parts on their own: the queue of loads, the janitor, and what a load may become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <list>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "server/core/testing/watched_thread.h"
#include "server/repository/janitor.h"
#include "server/repository/load_queue.h"
#include "server/repository/model_record.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A job that is running, until Release.
class RunningJob {
 public:
  RunningJob(LoadQueue& queue, std::string model) {
    queue.Add(std::move(model),
              [this, release = release_.get_future().share()](const absl::Status&) {
                begun_.set_value();
                release.wait();  // its own: the test may end before the job
              });
    begun_.get_future().wait();
  }
  void Release() { release_.set_value(); }

 private:
  std::promise<void> begun_, release_;
};

TEST(LoadQueueTest, JobsOfOneModelRunInOrderAndNeverTogether) {
  std::vector<int> order;  // not atomic: the queue keeps the jobs apart
  {
    LoadQueue queue(4);
    std::promise<void> done;
    for (int i = 0; i < 100; ++i) {
      queue.Add("cats", [&order, &done, i](const absl::Status&) {
        order.push_back(i);
        if (i == 99) done.set_value();
      });
    }
    done.get_future().wait();
  }
  ASSERT_THAT(order, SizeIs(100));
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(LoadQueueTest, CountsTheMostJobsAtOnce) {
  const std::vector<std::string> models = {"cats", "dogs", "owls"};
  LoadQueue queue(4);
  std::list<RunningJob> running;
  for (const std::string& model : models) running.emplace_back(queue, model);
  EXPECT_EQ(queue.together(), 3);
  for (int i = 0; i < 10; ++i) {  // one after the other, beside a load that takes long
    RunningJob(queue, "hens").Release();
    queue.RunHere("hens", absl::OkStatus(), [] {});
  }
  EXPECT_EQ(queue.together(), 4);
  for (RunningJob& job : running) job.Release();
  for (const std::string& model : models) queue.RunHere(model, absl::OkStatus(), [] {});
  RunningJob alone(queue, "cats");
  EXPECT_EQ(queue.together(), 1);
  alone.Release();
}

TEST(LoadQueueTest, AModelThatIsBusyHoldsUpNoOther) {
  std::promise<void> other;
  LoadQueue queue(2);
  RunningJob cats(queue, "cats");
  queue.Add("cats", [](const absl::Status&) {});
  queue.Add("dogs", [&](const absl::Status&) { other.set_value(); });
  other.get_future().wait();
  cats.Release();
}

TEST(LoadQueueTest, RunHereWaitsForTheModelAndNotForAThread) {
  LoadQueue queue(1);
  RunningJob cats(queue, "cats");
  bool ran = false;
  queue.RunHere("dogs", absl::CancelledError(), [&] { ran = true; });
  EXPECT_TRUE(ran);
  std::atomic<bool> finished = false;
  WatchedThread waiting(
      [&] { queue.RunHere("cats", absl::CancelledError(), [&] { EXPECT_TRUE(finished); }); });
  EXPECT_TRUE(waiting.WaitsBeforeItEnds());
  finished = true;
  cats.Release();
}

TEST(LoadQueueTest, RunHereEndsWhatOfTheModelHasNotBegun) {
  LoadQueue queue(1);
  RunningJob cats(queue, "cats");
  absl::Status second, other;
  std::promise<void> seconds_end, others_turn;
  queue.Add("cats", [&](const absl::Status& turn) {
    second = turn;
    seconds_end.set_value();
  });
  queue.Add("dogs", [&](const absl::Status& turn) {
    other = turn;
    others_turn.set_value();
  });
  std::thread waiting(
      [&] { EXPECT_TRUE(queue.RunHere("cats", absl::CancelledError("unloaded"), [] {})); });
  seconds_end.get_future().wait();
  cats.Release();
  waiting.join();
  EXPECT_EQ(second, absl::CancelledError("unloaded"));
  others_turn.get_future().wait();
  EXPECT_TRUE(other.ok());
}

TEST(LoadQueueTest, AJobThatThrowsHereLeavesItsModelFree) {
  std::promise<void> done;
  LoadQueue queue(1);
  EXPECT_THROW(queue.RunHere("cats", absl::CancelledError(), [] { throw std::bad_alloc(); }),
               std::bad_alloc);
  queue.Add("cats", [&](const absl::Status&) { done.set_value(); });
  done.get_future().wait();
}

TEST(LoadQueueTest, CloseTellsEveryWaitingJob) {
  LoadQueue queue(1);
  std::promise<void> begun;
  std::atomic<int> stopped = 0;
  queue.Add("cats", [&](const absl::Status& turn) {
    EXPECT_TRUE(turn.ok());
    begun.set_value();
    while (stopped < 2) std::this_thread::yield();
  });
  begun.get_future().wait();
  const auto stop = [&](const absl::Status& turn) {
    stopped += ReasonOf(turn) == "server.draining";
  };
  for (int i = 0; i < 2; ++i) queue.Add("dogs", stop);
  queue.Close();
  EXPECT_EQ(stopped, 2);
  queue.Add("mice", stop);
  EXPECT_EQ(stopped, 3);
}

TEST(LoadQueueTest, CloseWaitsForNoJob) {
  LoadQueue queue(1);
  RunningJob cats(queue, "cats");
  std::thread waiting(
      [&] { EXPECT_FALSE(queue.RunHere("cats", absl::CancelledError(), [] { FAIL(); })); });
  queue.Close();
  waiting.join();
  cats.Release();
}

class CountedServable final : public Servable {
 public:
  explicit CountedServable(std::atomic<int>* alive) : alive_(alive) { ++*alive_; }
  ~CountedServable() override { --*alive_; }
  const std::shared_ptr<const ModelView>& view() const override { return view_; }
  void OnAnswered(Protocol, absl::StatusCode, const StageTimes&) const override {}

 private:
  void Take(std::shared_ptr<const ServingModel>, std::unique_ptr<InferenceRequest>,
            InferenceCallback) const override {
    FOVEA_CHECK(false);
  }

  std::atomic<int>* alive_;
  std::shared_ptr<const ModelView> view_ = std::make_shared<ModelView>();
};

TEST(JanitorTest, DestroysWhenTheLastHandleGoesAndThenSaysSo) {
  std::atomic<int> alive = 0;
  std::promise<int> alive_when_gone;
  Janitor janitor;
  std::shared_ptr<Servable> handle = janitor.Adopt(std::make_shared<CountedServable>(&alive),
                                                   [&] { alive_when_gone.set_value(alive); });
  std::shared_ptr<Servable> second = handle;
  handle.reset();
  EXPECT_EQ(alive, 1);
  second.reset();
  EXPECT_EQ(alive_when_gone.get_future().get(), 0);
}

TEST(JanitorTest, ItsEndWaitsForEveryHandle) {
  std::atomic<int> alive = 0;
  auto janitor = std::make_unique<Janitor>();
  std::shared_ptr<Servable> handle =
      janitor->Adopt(std::make_shared<CountedServable>(&alive), [] {});
  {
    WatchedThread end([&] { janitor.reset(); });
    EXPECT_TRUE(end.WaitsBeforeItEnds());
    EXPECT_EQ(alive, 1);
    handle.reset();
  }
  EXPECT_EQ(alive, 0);
}

TEST(VersionLoadDeathTest, AStateIsNeverGoneBackTo) {
  using enum ModelState;
  const auto at = [](std::vector<ModelState> states) {
    VersionLoad load("");
    for (const ModelState state : states) load.Advance(state);
  };
  at({kReady, kUnloading, kUnavailable});
  at({kUnavailable});
  for (const std::vector<ModelState>& wrong : {std::vector<ModelState>{kLoading},
                                               {kUnloading},
                                               {kReady, kReady},
                                               {kReady, kLoading},
                                               {kReady, kUnavailable},
                                               {kReady, kUnloading, kReady},
                                               {kUnavailable, kLoading},
                                               {kUnavailable, kReady}}) {
    EXPECT_DEATH(at(wrong), "check failed");
  }
}

TEST(ModelRecordTest, AReloadServesBesideTheOldOneAndThenInsteadOfIt) {
  std::atomic<int> alive = 0;
  ModelRecord record;
  const auto first = record.Begin(1, "a");
  record.Succeed(1, *first, std::make_shared<CountedServable>(&alive));
  const auto second = record.Begin(1, "b");
  EXPECT_EQ(record.Ready(1), first.get());
  record.Succeed(1, *second, std::make_shared<CountedServable>(&alive));
  EXPECT_EQ(record.Ready(1), second.get());
  EXPECT_EQ(first->state(), ModelState::kUnloading);
  EXPECT_EQ(alive, 1) << "the record lets go of what it replaces";
  EXPECT_FALSE(record.Idle());
  record.Gone(1, *first);
  record.Retire(1, "");
  record.Gone(1, *second);
  EXPECT_TRUE(record.Idle());
  EXPECT_THAT(record.ReadyVersions(), IsEmpty());
}

TEST(ModelRecordTest, RowsTellTheBestStateOfEachVersion) {
  std::atomic<int> alive = 0;
  ModelRecord record;
  const auto states = [&] {
    std::vector<std::pair<std::string, ModelState>> rows;
    for (const IndexEntry& row : record.Rows("cats")) rows.emplace_back(row.version, row.state);
    return rows;
  };
  EXPECT_THAT(states(), ElementsAre(std::pair(std::string(), ModelState::kUnavailable)));
  const auto one = record.Begin(1, "");
  const auto two = record.Begin(2, "");
  EXPECT_THAT(states(), ElementsAre(std::pair(std::string("1"), ModelState::kLoading),
                                    std::pair(std::string("2"), ModelState::kLoading)));
  one->progress = "warms up";
  EXPECT_EQ(record.Rows("cats").front().reason, "warms up");
  record.Succeed(1, *one, std::make_shared<CountedServable>(&alive));
  EXPECT_EQ(record.Rows("cats").front().reason, "");
  record.Fail(2, *two, "broken");
  record.Begin(1, "again");
  EXPECT_THAT(states(), ElementsAre(std::pair(std::string("1"), ModelState::kReady),
                                    std::pair(std::string("2"), ModelState::kUnavailable)));
  EXPECT_EQ(record.Rows("cats").back().reason, "broken");
  record.ForgetAllBut({1});
  EXPECT_THAT(record.Rows("cats"), SizeIs(1));
}

}  // namespace
}  // namespace fovea
