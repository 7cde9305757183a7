// Copies of requests, beside a real scheduler: when they run, and when they do not.
#include "server/compare/live/shadow_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/core/memory_budget.h"
#include "server/core/testing/notification.h"
#include "server/scheduler/scheduler.h"
#include "tests/server/compare/live/fake_arms.h"
#include "tests/server/eventually.h"
#include "tests/server/scheduler/fake_task.h"

namespace fovea {
namespace {

// A task of either model, as the pipeline makes them.
class CopyTask final : public Task {
 public:
  CopyTask(std::unique_ptr<InferenceRequest> request, InferenceCallback done)
      : request_(std::move(request)), done_(std::move(done)) {}
  // After a pass of `compute`, from whenever it began.
  void Answer(int first_class, Nanos compute = kMillisecond) {
    InferenceResponse response;
    response.results = ClassifyResults{{{.index = first_class}}};
    response.receipt.batch_size = response.receipt.batch_threads = 1;
    StageTimes stages(0);
    stages.EndStage(Stage::kCompute, compute);
    done_(std::move(response), stages);
  }
  const std::string& model() const { return request_->model_name; }
  RequestMemory& memory() const { return *request_->memory; }
  void Fail(absl::Status why) { done_(std::move(why), request_->stages); }

  int images() const override { return 1; }
  uint64_t shape_key() const override { return 0; }
  int priority() const override { return 0; }
  Nanos arrival() const override { return 0; }
  Nanos timeout() const override { return kNever; }
  Nanos deadline() const override { return kNever; }
  bool Cancelled() const override { return request_->cancellation->Cancelled(); }
  CancellationPtr idle_only() const override {
    return request_->idle_only ? request_->cancellation : nullptr;
  }
  void Drop(std::unique_ptr<Task> /*self*/, absl::Status why) override { Fail(std::move(why)); }

 private:
  const std::unique_ptr<InferenceRequest> request_;
  const InferenceCallback done_;
};

class ShadowCopiesTest : public testing::Test {
 protected:
  ShadowCopiesTest() {
    for (const char* name : {"vit", "other"}) {
      catalog_.Serve(std::make_shared<ArmModelFake>(
          ArmView(name, name == std::string("vit") ? "dense" : "knn:k=9"),
          [this, name](std::unique_ptr<InferenceRequest> request, InferenceCallback done) {
            request->model_name = name;
            auto place = queue_->Reserve({.idle_only = request->idle_only});
            if (!place.ok()) return done(place.status(), StageTimes(0));
            ModelQueue::Enqueue(*std::move(place),
                                std::make_unique<CopyTask>(std::move(request), std::move(done)));
          }));
    }
    ExperimentPlan plan{.name = "trial",
                        .model_name = "vit",
                        .arms = {{.variant = {.model_name = "vit"}, .weight = 1},
                                 {.variant = {.model_name = "other"}, .shadow = true}}};
    plan.guard_rails.max_shadow_share = 0.5;
    plan.guard_rails.max_disagreement = 0.7;
    std::vector<ArmModel> arms;
    for (const char* name : {"vit", "other"}) {
      arms.push_back({.name = name, .model_name = name, .view = *catalog_.Find(name, "")});
    }
    experiment_ = std::make_shared<RunningExperiment>(
        plan, std::move(arms),
        RunningExperiment::Environment{catalog_, SteadyClock(), /*device_threads=*/1},
        counts_.Factory());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the share of some time
  }

  static InferenceRequest Request() {
    InferenceRequest request;
    request.model_name = "vit";
    request.input = ImageFiles{{ScatteredBytes::Copy("a file")}};
    request.options = ClassifyOptions{.top_k = 1};
    return request;
  }
  static InferenceResponse Baseline(int first_class) {
    InferenceResponse response;
    response.results = ClassifyResults{{{.index = first_class}}};
    return response;
  }
  std::unique_ptr<ShadowCopies::Copy> TryCopy(const InferenceRequest& request = Request()) {
    return copies_->TryCopy(experiment_, 1, request, VisionTask::kClassification, 1000, memory_);
  }
  void Submit(int first_class = 1) {
    auto copy = TryCopy();
    ASSERT_NE(copy, nullptr);
    copy->OnBaseline(Baseline(first_class));
    ShadowCopies::Submit(std::move(copy));
  }
  ArmReport Told() const { return experiment_->Report().arms[1]; }
  void AwaitShadows(uint64_t count) const { Await(&ArmReport::shadow_requests, count); }
  void AwaitSkipped(uint64_t count) const { Await(&ArmReport::shadow_skipped, count); }
  void Await(uint64_t ArmReport::*number, uint64_t count) const {
    EXPECT_TRUE(Eventually([&] { return Told().*number >= count; }))
        << Told().shadow_requests << " copies were run, " << Told().shadow_skipped << " skipped; "
        << experiment_->Report().reason;
  }

  ArmCatalog catalog_;
  ArmCounts counts_;
  MemoryBudget memory_{1 << 20, SteadyClock()};
  std::shared_ptr<RunningExperiment> experiment_;
  std::unique_ptr<Scheduler> scheduler_ = *Scheduler::Create({}, SteadyClock());
  std::function<void(CopyTask&)> run_ = [](CopyTask& task) { task.Answer(1); };
  std::unique_ptr<ModelQueue> queue_ =
      *scheduler_->AddModel({}, [this](std::unique_ptr<Batch> batch) {
        run_(static_cast<CopyTask&>(*batch->tasks.front()));
        return RunOutcome::kWhole;
      });
  ShadowCopies::Options Options(Nanos most_wait) const {
    return {.await_idle = [this](Nanos until) { return scheduler_->AwaitIdle(until); },
            .on_tick = [] {},
            .most_wait = most_wait};
  }
  // However long another process has the processor: where it would wait too long, a test says so.
  std::unique_ptr<ShadowCopies> copies_ =
      *ShadowCopies::Create(Options(/*most_wait=*/kNever), SteadyClock());
};

TEST_F(ShadowCopiesTest, ACopyIsRunAndComparedWithTheBaseline) {
  Submit(/*first_class=*/1);
  AwaitShadows(1);
  EXPECT_EQ(Told().disagreement->observations, 1u);
  EXPECT_EQ(Told().disagreement->estimate, 0);
  EXPECT_EQ(Told().latency_ratio->observations, 1u);
  ASSERT_TRUE(Eventually([&] { return experiment_->AllowsCopy(); }));
  Submit(/*first_class=*/2);
  AwaitShadows(2);
  EXPECT_EQ(Told().disagreement->estimate, 0.5);
  EXPECT_EQ(Told().requests, 0u) << "it answers nobody";
  EXPECT_EQ(counts_.of(ArmOutcome::kShadow), 2);
  EXPECT_TRUE(Eventually([&] { return memory_.held() == 0; }));
}

// The request's own pass found other things in the caches, and other work beside it.
TEST_F(ShadowCopiesTest, ItsLatencyIsHeldAgainstThatOfTheBaselinesCopy) {
  std::vector<std::string> ran;
  int passes = 0;
  run_ = [&](CopyTask& task) {
    ran.push_back(task.model());
    // The first of each has what it reads in no cache yet.
    task.Answer(1, (task.model() == "vit" ? 20 : 30) * (++passes % 2 == 1 ? 10 : 1) * 1000);
  };
  constexpr uint64_t kCopies = SequentialMean::kFirstBlock;  // before which there is no estimate
  for (uint64_t copies = 1; copies <= kCopies; ++copies) {
    ASSERT_TRUE(Eventually([&] { return experiment_->AllowsCopy(); }));
    Submit();
    AwaitShadows(copies);
  }
  copies_->Stop();
  ran.resize(8);
  EXPECT_THAT(ran, testing::ElementsAre("other", "other", "vit", "vit",  //
                                        "vit", "vit", "other", "other"));
  EXPECT_EQ(Told().latency_ratio->observations, kCopies);
  EXPECT_NEAR(Told().latency_ratio->estimate, 1.5, 1e-9);
  EXPECT_EQ(Told().mean_latency_ms, 0) << "nobody has waited for it";
}

// Its answer is compared all the same.
TEST_F(ShadowCopiesTest, AFailureOfTheBaselinesCopySaysNothing) {
  run_ = [](CopyTask& task) {
    if (task.model() == "other") return task.Answer(1);
    task.Fail(absl::InternalError(""));
  };
  Submit();
  AwaitShadows(1);
  EXPECT_FALSE(Told().latency_ratio);
  EXPECT_EQ(Told().error_excess->estimate, 0);
  EXPECT_EQ(Told().disagreement->observations, 1u);
}

TEST_F(ShadowCopiesTest, ABusyDeviceMakesNoCopies) {
  copies_ = *ShadowCopies::Create(Options(/*most_wait=*/kMillisecond), SteadyClock());
  Notification running, go_on;
  const auto busy = *scheduler_->AddModel({}, [&](std::unique_ptr<Batch> batch) {
    running.Notify();
    go_on.Wait();
    for (auto& task : batch->tasks) RecordOf(*task).Run();
    return RunOutcome::kWhole;
  });
  bool ran = false;
  run_ = [&](CopyTask& task) {
    ran = true;
    task.Answer(1);
  };
  auto place = busy->Reserve({});
  ASSERT_TRUE(place.ok());
  ModelQueue::Enqueue(*std::move(place),
                      std::make_unique<FakeTask>(std::make_shared<TaskRecord>()));
  running.Wait();
  Submit();
  AwaitSkipped(1);
  EXPECT_FALSE(ran);
  go_on.Notify();
}

TEST_F(ShadowCopiesTest, ACopyWaitsForTheEndOfItsRequestsOwnBatch) {
  Notification running;
  std::atomic<bool> end = false;
  const auto busy = *scheduler_->AddModel({}, [&](std::unique_ptr<Batch> batch) {
    running.Notify();
    while (!end) std::this_thread::yield();
    for (auto& task : batch->tasks) RecordOf(*task).Run();
    return RunOutcome::kWhole;
  });
  auto place = busy->Reserve({});
  ASSERT_TRUE(place.ok());
  ModelQueue::Enqueue(*std::move(place),
                      std::make_unique<FakeTask>(std::make_shared<TaskRecord>()));
  running.Wait();
  Submit();
  end = true;
  AwaitShadows(1);
  EXPECT_EQ(Told().shadow_skipped, 0u);
}

TEST_F(ShadowCopiesTest, ACopyThatRunsMakesWayForARequest) {
  Notification runs;
  run_ = [&](CopyTask& task) {
    if (task.idle_only() == nullptr) return task.Answer(1);
    runs.Notify();
    while (!task.Cancelled()) std::this_thread::yield();  // as between two blocks
    task.Fail(absl::CancelledError(""));
  };
  Submit();
  runs.Wait();
  // It asks for no more than a place: its picture is still to be decoded.
  auto place = queue_->Reserve({});
  ASSERT_TRUE(place.ok());
  AwaitSkipped(1);
  EXPECT_EQ(Told().shadow_requests, 0u);
}

TEST_F(ShadowCopiesTest, WhatTheShareDoesNotAllowIsSkipped) {
  experiment_->OnSpent(1000 * kSecond);
  EXPECT_EQ(TryCopy(), nullptr);
  EXPECT_EQ(Told().shadow_skipped, 1u);
}

TEST_F(ShadowCopiesTest, FewAreKept) {
  std::vector<std::unique_ptr<ShadowCopies::Copy>> kept;
  for (int i = 0; i < limits::kMaxShadowCopies; ++i) {
    kept.push_back(TryCopy());
    ASSERT_NE(kept.back(), nullptr);
  }
  EXPECT_EQ(TryCopy(), nullptr);
  EXPECT_EQ(Told().shadow_skipped, 1u);
  kept.clear();  // their requests have failed: there was nothing to copy
  EXPECT_EQ(Told().shadow_skipped, 1u);
  EXPECT_NE(TryCopy(), nullptr);
}

TEST_F(ShadowCopiesTest, WhatThereIsNoMemoryForIsSkipped) {
  MemoryBudget::Hold all = memory_.Open();
  ASSERT_TRUE(all.TryGrow(memory_.capacity()));
  EXPECT_EQ(TryCopy(), nullptr);
  EXPECT_EQ(Told().shadow_skipped, 1u);
}

TEST_F(ShadowCopiesTest, RequestsOfAnotherKindAreNotCopied) {
  InferenceRequest request = Request();
  request.draw = true;
  EXPECT_EQ(TryCopy(request), nullptr);
  request = Request();
  std::get<ImageFiles>(request.input).files.resize(2);
  EXPECT_EQ(TryCopy(request), nullptr);
  request = Request();
  request.input = NamedTensors{{.name = "pixel_values", .shape = {2, 3, 8, 8}}};
  EXPECT_EQ(TryCopy(request), nullptr);
  EXPECT_EQ(Told().shadow_skipped, 0u);
}

TEST_F(ShadowCopiesTest, AModelThatFailsIsSeen) {
  run_ = [](CopyTask& task) { task.Fail(absl::InternalError("")); };
  Submit();
  AwaitShadows(1);
  EXPECT_EQ(Told().error_excess->estimate, 1);
}

TEST_F(ShadowCopiesTest, AModelThatFailsNowAndThenIsSeen) {
  int passes = 0;
  run_ = [&](CopyTask& task) {
    if (++passes == 1) return task.Answer(1);
    EXPECT_EQ(task.model(), "other");
    task.Fail(absl::InternalError(""));
  };
  Submit();
  AwaitShadows(1);
  EXPECT_EQ(Told().error_excess->estimate, 1);
  EXPECT_EQ(Told().disagreement->observations, 1u);
}

// The baseline has answered it.
TEST_F(ShadowCopiesTest, AModelThatRefusesIsSeen) {
  run_ = [](CopyTask& task) { task.Fail(InvalidArgument("image.size", "too wide")); };
  Submit();
  AwaitShadows(1);
  EXPECT_EQ(Told().error_excess->estimate, 1);
}

TEST_F(ShadowCopiesTest, WhatOthersTakeIsNoFailure) {
  run_ = [](CopyTask& task) { task.Fail(Unavailable("server.request_memory", "in use")); };
  Submit();
  AwaitSkipped(1);
  EXPECT_EQ(Told().shadow_requests, 0u);
}

TEST_F(ShadowCopiesTest, WhatTheBaselineHasAnsweredIsCounted) {
  const auto answer = [](size_t bytes) {
    InferenceResponse response;
    SegmentResults& maps = response.results.emplace<SegmentResults>(1);
    maps[0].class_map_png.resize(bytes);
    return response;
  };
  auto copy = TryCopy();
  ASSERT_NE(copy, nullptr);
  const int64_t before = memory_.held();
  copy->OnBaseline(answer(5000));
  EXPECT_EQ(memory_.held(), before + 5000);
  copy.reset();
  copy = TryCopy();
  ASSERT_NE(copy, nullptr);
  copy->OnBaseline(answer(static_cast<size_t>(memory_.capacity())));
  EXPECT_EQ(memory_.held(), before) << "there is no room: it is not kept";
}

// Each run takes memory as the pipeline does, for a picture, outputs and the answer.
TEST_F(ShadowCopiesTest, ARunGivesItsMemoryBackToTheNext) {
  run_ = [&](CopyTask& task) {
    const absl::Status taken = task.memory().Take(memory_.capacity() / 2);
    taken.ok() ? task.Answer(1) : task.Fail(taken);
  };
  Submit();
  AwaitShadows(1);
  EXPECT_EQ(Told().latency_ratio->observations, 1u) << "all four have run";
  EXPECT_TRUE(Eventually([&] { return memory_.held() == 0; }));
}

TEST_F(ShadowCopiesTest, AnswersThatDifferTooOftenEndTheExperiment) {
  for (int i = 0; i < 200 && experiment_->running(); ++i) {
    experiment_->OnCopy(1, {.differs = true});
  }
  EXPECT_EQ(experiment_->Report().state, ExperimentState::kGuardRail);
  EXPECT_THAT(experiment_->Report().reason, testing::HasSubstr("max_disagreement: other"));
  EXPECT_LT(Told().shadow_requests, 100u);
  EXPECT_EQ(TryCopy(), nullptr);
}

TEST_F(ShadowCopiesTest, StopsAtOnce) {
  Notification runs;
  run_ = [&](CopyTask& task) {
    runs.Notify();
    while (!task.Cancelled()) std::this_thread::yield();
    task.Fail(absl::CancelledError(""));
  };
  Submit();
  Submit();
  runs.Wait();
  copies_->Stop();
  EXPECT_EQ(Told().shadow_skipped, 2u);
  EXPECT_EQ(TryCopy(), nullptr);
  EXPECT_EQ(memory_.held(), 0);
}

}  // namespace
}  // namespace fovea
