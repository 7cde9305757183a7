#include "server/compare/live/traffic_experiments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/testing/fake_clock.h"
#include "server/core/testing/notification.h"
#include "server/scheduler/scheduler.h"
#include "tests/server/compare/live/fake_arms.h"
#include "tests/server/eventually.h"

namespace fovea {
namespace {

using testing::HasSubstr;

MATCHER_P2(Fails, code, reason, "") {
  *result_listener << arg.status();
  return arg.status().code() == code && ReasonOf(arg.status()) == reason;
}

class TrafficExperimentsTest : public testing::Test {
 protected:
  TrafficExperimentsTest() {
    Serve("vit", "dense");
    Serve("other", "knn:k=9");
    Make({});
  }

  void Serve(const std::string& name, const std::string& attention) {
    catalog_.Serve(std::make_shared<ArmModelFake>(ArmView(name, attention)));
  }
  void Make(TrafficExperimentsOptions options, LeaseVariant lease = nullptr) {
    live_.reset();
    options.await_idle = [this](Nanos until) { return scheduler_->AwaitIdle(until); };
    live_ =
        *TrafficExperiments::Create(options, catalog_, std::move(lease), clock_, counts_.Factory());
  }
  static ExperimentPlan Plan(const std::string& name = "trial", double weight = 1) {
    return {.name = name,
            .model_name = "vit",
            .arms = {{.variant = {.model_name = "vit"}, .weight = 1},
                     {.variant = {.model_name = "other"}, .weight = weight}}};
  }
  absl::StatusOr<LiveExperiment> Start(ExperimentPlan plan) {
    std::promise<absl::StatusOr<LiveExperiment>> promise;
    live_->Start(std::move(plan), std::make_shared<Cancellation>(),
                 [&](absl::StatusOr<LiveExperiment> told) { promise.set_value(std::move(told)); });
    return promise.get_future().get();
  }
  LiveExperiment Get(const std::string& name = "trial") { return *live_->Get(name); }

  // A request that takes so long and ends so. The arm that had it; empty: the model itself.
  std::string Request(std::string_view key, double baseline_ms = 10, double other_ms = 10,
                      absl::StatusCode other_code = absl::StatusCode::kOk, Nanos allowed = kNever) {
    const std::unique_ptr<RoutedRequest> routed = live_->Route("vit", key);
    if (routed == nullptr) return "";
    const bool is_other = routed->model()->view()->name == "other";
    StageTimes stages(0);
    stages.EndStage(Stage::kCompute,
                    static_cast<Nanos>((is_other ? other_ms : baseline_ms) * kMillisecond));
    routed->OnAnswered(is_other ? other_code : absl::StatusCode::kOk, stages, allowed);
    routed->OnLeft();
    return routed->arm();
  }
  // Requests of many callers, for so many windows of the tests.
  void Traffic(int windows, double baseline_ms = 10, double other_ms = 10,
               absl::StatusCode other_code = absl::StatusCode::kOk, Nanos allowed = kNever) {
    for (int i = 0; i < windows; ++i) {
      // A little noise: without any, the first block would be certain.
      const double noise = 1 + 0.1 * std::sin(0.7 * i);
      for (int caller = 0; caller < 16; ++caller) {
        Request(absl::StrCat(caller), baseline_ms, other_ms * noise, other_code, allowed);
      }
      clock_.Advance(100 * kMillisecond);
    }
  }

  FakeClock clock_;
  ArmCatalog catalog_;
  ArmCounts counts_;
  std::unique_ptr<Scheduler> scheduler_ = *Scheduler::Create({}, clock_);
  std::unique_ptr<TrafficExperiments> live_;
};

TEST_F(TrafficExperimentsTest, TrafficIsSharedOutAndStaysWhereItIs) {
  EXPECT_EQ(Request("somebody"), "") << "nothing runs";
  const auto started = Start(Plan());
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->state, ExperimentState::kRunning);
  ASSERT_EQ(started->arms.size(), 2u);
  EXPECT_EQ(started->arms[1].attention, "knn:k=9");
  EXPECT_EQ(started->arms[0].name, "vit:dense");
  EXPECT_EQ(started->arms[1].name, "other:knn:k=9") << "as below, where receipts have it";
  int of_other = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string key = absl::StrCat("caller", i), arm = Request(key);
    EXPECT_EQ(Request(key), arm);
    of_other += arm == "other:knn:k=9";
  }
  EXPECT_NEAR(of_other, 500, 5 * std::sqrt(250));
  const LiveExperiment told = Get();
  EXPECT_EQ(told.arms[0].requests + told.arms[1].requests, 2000u);
  EXPECT_EQ(told.arms[1].requests, static_cast<uint64_t>(2 * of_other));
  EXPECT_DOUBLE_EQ(told.arms[0].mean_latency_ms, 10);
  EXPECT_EQ(counts_.of(ArmOutcome::kOk), 2000);
  EXPECT_EQ(live_->Route("other", "somebody"), nullptr) << "its own traffic is its own";
}

TEST_F(TrafficExperimentsTest, WhoHasNoKeyGoesEachTimeByItself) {
  ASSERT_TRUE(Start(Plan()).ok());
  int of_other = 0;
  for (int i = 0; i < 1000; ++i) of_other += Request("") == "other:knn:k=9";
  EXPECT_NEAR(of_other, 500, 5 * std::sqrt(250));
}

TEST_F(TrafficExperimentsTest, StoppedItSendsEverythingToTheModelAndIsKept) {
  ASSERT_TRUE(Start(Plan()).ok());
  Traffic(3);
  EXPECT_EQ(ReasonOf(live_->Delete("trial")), "experiment.running");
  const auto stopped = live_->Stop("trial");
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(stopped->state, ExperimentState::kStopped);
  EXPECT_THAT(stopped->reason, HasSubstr("a caller"));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Request(absl::StrCat(i)), "");
  clock_.Advance(60 * kSecond);
  EXPECT_EQ(Get().running, 300 * kMillisecond) << "time stands still for it";
  EXPECT_EQ(live_->Stop("trial")->running, 300 * kMillisecond) << "and again changes nothing";
  EXPECT_EQ(counts_.ended, 1);
  EXPECT_EQ(counts_.observers, 1);
  EXPECT_EQ(live_->Delete("trial"), absl::OkStatus());
  EXPECT_EQ(counts_.observers, 0);
  EXPECT_THAT(live_->Get("trial"), Fails(absl::StatusCode::kNotFound, "experiment.not_found"));
  EXPECT_TRUE(Start(Plan()).ok()) << "its name is free";
}

TEST_F(TrafficExperimentsTest, AnswersThatWereUnderWayAreCountedAndChangeNothing) {
  ASSERT_TRUE(Start(Plan()).ok());
  const std::unique_ptr<RoutedRequest> routed = live_->Route("vit", "somebody");
  ASSERT_TRUE(live_->Stop("trial").ok());
  ASSERT_TRUE(live_->Delete("trial").ok());
  ASSERT_TRUE(Start(Plan()).ok());
  routed->OnAnswered(absl::StatusCode::kInternal, StageTimes(0),
                     kNever);  // of the first of that name
  routed->OnLeft();
  EXPECT_EQ(Get().arms[0].requests + Get().arms[1].requests, 0u);
}

TEST_F(TrafficExperimentsTest, WhatCallersDoWrongSaysNothingOfAnArm) {
  ASSERT_TRUE(Start(Plan()).ok());
  for (int i = 0; i < 100; ++i) {
    Request(absl::StrCat(i), 10, 10, absl::StatusCode::kInvalidArgument);
    Request(absl::StrCat(i), 10, 10, absl::StatusCode::kCancelled);
  }
  EXPECT_EQ(Get().arms[1].requests, 0u);
  EXPECT_GT(Get().arms[0].requests, 0u);
}

// Who may ask for inference alone could choose the arm by the key, and end any experiment.
TEST_F(TrafficExperimentsTest, DeadlinesThatAreTooTightEndNothing) {
  ASSERT_TRUE(Start(Plan()).ok());
  Traffic(60, 10, 0, absl::StatusCode::kDeadlineExceeded, 15 * kMillisecond);
  EXPECT_EQ(Get().state, ExperimentState::kRunning);
  EXPECT_EQ(Get().arms[1].failures, 0u);
  // There was time enough: refused at once or not, the arm does not do what the baseline does.
  Traffic(60, 10, 0, absl::StatusCode::kDeadlineExceeded, kSecond);
  EXPECT_EQ(Get().state, ExperimentState::kGuardRail);
  EXPECT_THAT(Get().reason, HasSubstr("max_error_excess"));
}

TEST_F(TrafficExperimentsTest, AnArmThatIsMuchSlowerEndsIt) {
  ASSERT_TRUE(Start(Plan()).ok());
  Traffic(200, 10, 40);
  const LiveExperiment told = Get();
  EXPECT_EQ(told.state, ExperimentState::kGuardRail);
  EXPECT_THAT(told.reason, HasSubstr("max_latency_ratio: other:knn:k=9"));
  ASSERT_TRUE(told.arms[1].latency_ratio);
  EXPECT_GT(told.arms[1].latency_ratio->lower, 2);
  EXPECT_FALSE(told.arms[0].latency_ratio);
  EXPECT_EQ(Request("somebody"), "");
}

TEST_F(TrafficExperimentsTest, AnArmThatFailsEndsIt) {
  ASSERT_TRUE(Start(Plan()).ok());
  Traffic(60, 10, 10, absl::StatusCode::kInternal);
  const LiveExperiment told = Get();
  EXPECT_EQ(told.state, ExperimentState::kGuardRail);
  EXPECT_THAT(told.reason, HasSubstr("max_error_excess"));
  EXPECT_EQ(told.arms[1].failures, told.arms[1].requests);
  EXPECT_EQ(counts_.of(ArmOutcome::kFailed), static_cast<int>(told.arms[1].failures));
}

// deploy/prometheus/recording_rules.yml and the dashboards name the same codes.
TEST_F(TrafficExperimentsTest, FailuresAreTheServersFaults) {
  for (int code = 1; code <= 16; ++code) {
    ASSERT_TRUE(Start(Plan()).ok());
    for (int caller = 0; caller < 16; ++caller) {
      Request(absl::StrCat(caller), 10, 10, static_cast<absl::StatusCode>(code));
    }
    const std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
    const bool is_fault = name == "DEADLINE_EXCEEDED" || name == "UNAVAILABLE" ||
                          name == "INTERNAL" || name == "UNKNOWN" || name == "DATA_LOSS";
    const LiveExperiment told = Get();
    EXPECT_EQ(told.arms[1].failures > 0, is_fault) << name;
    EXPECT_EQ(told.arms[1].failures, told.arms[1].requests) << name;
    ASSERT_TRUE(live_->Stop("trial").ok());
    ASSERT_TRUE(live_->Delete("trial").ok());
  }
}

TEST_F(TrafficExperimentsTest, ArmsThatAreAlikeGoOn) {
  ASSERT_TRUE(Start(Plan()).ok());
  Traffic(400);
  EXPECT_EQ(Get().state, ExperimentState::kRunning);
  EXPECT_EQ(Get().arms[1].error_excess->estimate, 0);
  EXPECT_GT(counts_.tests, 300);
}

TEST_F(TrafficExperimentsTest, ItsTimeEndsItWithoutAnyRequest) {
  ExperimentPlan plan = Plan();
  plan.guard_rails.max_time = 5 * kSecond;
  ASSERT_TRUE(Start(std::move(plan)).ok());
  clock_.AwaitWaiters(2);  // the scheduler's, and its own
  clock_.Advance(4 * kSecond);
  while (counts_.ended == 0) {
    clock_.AwaitWaiters(2);
    clock_.Advance(kSecond);
  }
  EXPECT_EQ(Get().state, ExperimentState::kExpired);
  EXPECT_EQ(Request("somebody"), "");
}

TEST_F(TrafficExperimentsTest, Row90AnArmWhoseModelIsUnloadedEndsItAndLosesNothing) {
  ASSERT_TRUE(Start(Plan()).ok());
  ASSERT_TRUE(catalog_.Unload("other").ok());
  // Whoever would have gone there gets the model, and all others too from then on.
  for (int i = 0; i < 100; ++i) EXPECT_NE(Request(absl::StrCat(i)), "other:knn:k=9");
  EXPECT_EQ(Get().state, ExperimentState::kModelGone);
  EXPECT_THAT(Get().reason, HasSubstr("other:knn:k=9"));
}

TEST_F(TrafficExperimentsTest, AReloadGoesOnUnlessItIsAnother) {
  ASSERT_TRUE(Start(Plan()).ok());
  Serve("vit", "dense");
  Serve("other", "knn:k=9");
  Traffic(5);
  EXPECT_EQ(Get().state, ExperimentState::kRunning);
  auto view = ArmView("other", "knn:k=9");
  view->num_classes = 4;
  catalog_.Serve(std::make_shared<ArmModelFake>(view));
  Traffic(1);
  EXPECT_EQ(Get().state, ExperimentState::kModelGone);
  EXPECT_THAT(Get().reason, HasSubstr("other classes"));
}

TEST_F(TrafficExperimentsTest, ABaselineThatBecomesAnotherEndsIt) {
  ASSERT_TRUE(Start(Plan()).ok());
  auto view = ArmView("vit", "dense");
  view->sizes = {{16, 16}};
  catalog_.Serve(std::make_shared<ArmModelFake>(view));
  Traffic(1);
  EXPECT_EQ(Get().state, ExperimentState::kModelGone);
}

TEST_F(TrafficExperimentsTest, AReloadWithAnotherAttentionOrVersionEndsIt) {
  ASSERT_TRUE(Start(Plan()).ok());
  Serve("vit", "knn:k=3");
  Traffic(1);
  EXPECT_EQ(Get().state, ExperimentState::kModelGone);
  EXPECT_THAT(Get().reason, HasSubstr("vit was loaded anew"));
  Serve("vit", "dense");
  ASSERT_TRUE(Start(Plan("next")).ok());
  auto view = ArmView("other", "knn:k=9");
  view->version = "2";
  catalog_.Serve(std::make_shared<ArmModelFake>(view));
  Traffic(1);
  EXPECT_EQ(Get("next").state, ExperimentState::kModelGone);
}

// The arm would go on with the weights of the load before.
TEST_F(TrafficExperimentsTest, AReloadEndsItWhereAnArmHasTheWeightsOfTheLoadBefore) {
  const auto lease = std::make_shared<int>(1);
  Make({}, [&](const Variant&, CancellationPtr) -> absl::StatusOr<LeasedModel> {
    Serve("variant.vit", "knn:k=3");
    return LeasedModel{.model_name = "variant.vit", .lease = lease};
  });
  ExperimentPlan plan = Plan();
  plan.arms[1].variant = {.model_name = "vit", .attention = "knn:k=3"};
  ASSERT_TRUE(Start(plan).ok());
  Traffic(1);
  EXPECT_EQ(Get().state, ExperimentState::kRunning);
  Serve("vit", "dense");
  Traffic(1);
  EXPECT_EQ(Get().state, ExperimentState::kModelGone);
  EXPECT_THAT(Get().reason, HasSubstr("vit was loaded anew"));
}

// Of a sibling, which is no arm itself.
TEST_F(TrafficExperimentsTest, WhereAnArmHasTheWeightsOfAModelThatGoesItEnds) {
  for (const bool loaded_anew : {true, false}) {
    Serve("other", "knn:k=9");
    Make({}, [&](const Variant&, CancellationPtr) -> absl::StatusOr<LeasedModel> {
      Serve("variant.other", "knn:k=3");
      return LeasedModel{.model_name = "variant.other", .lease = std::make_shared<int>(1)};
    });
    ExperimentPlan plan = Plan();
    plan.arms[1].variant = {.model_name = "other", .attention = "knn:k=3"};
    ASSERT_TRUE(Start(plan).ok());
    Serve("vit", "dense");  // whose weights no other arm has
    Traffic(5);
    EXPECT_EQ(Get().state, ExperimentState::kRunning) << Get().reason;
    if (loaded_anew) {
      Serve("other", "knn:k=9");
    } else {
      ASSERT_TRUE(catalog_.Unload("other").ok());
    }
    EXPECT_TRUE(Eventually([&] {
      clock_.Advance(kSecond);
      return Get().state == ExperimentState::kModelGone;
    }));
    EXPECT_THAT(Get().reason, HasSubstr("the model whose weights other:knn:k=3 has"));
  }
}

TEST_F(TrafficExperimentsTest, ForgottenItHoldsNoModelWhateverIsUnderWay) {
  const auto lease = std::make_shared<int>(1);
  Make({}, [&](const Variant&, CancellationPtr) -> absl::StatusOr<LeasedModel> {
    Serve("variant.vit", "knn:k=3");
    return LeasedModel{.model_name = "variant.vit", .lease = lease};
  });
  ExperimentPlan plan = Plan();
  plan.arms[1].variant = {.model_name = "vit", .attention = "knn:k=3"};
  ASSERT_TRUE(Start(plan).ok());
  const std::unique_ptr<RoutedRequest> routed = live_->Route("vit", "somebody");
  ASSERT_NE(routed, nullptr);
  ASSERT_TRUE(catalog_.Unload("variant.vit").ok());
  Traffic(1);  // and its time stands still: nothing else lets the lease go
  ASSERT_TRUE(live_->Delete("trial").ok());
  EXPECT_EQ(lease.use_count(), 1) << "the test's alone";
}

TEST_F(TrafficExperimentsTest, Row89WhatCannotStartIsSaid) {
  ExperimentPlan plan = Plan();
  plan.arms.resize(1);
  EXPECT_THAT(Start(plan), Fails(absl::StatusCode::kInvalidArgument, "experiment.bad_plan"));
  plan = Plan();
  plan.arms[1].variant.model_name = "nobody";
  EXPECT_THAT(Start(plan), Fails(absl::StatusCode::kNotFound, "model.not_found"));
  plan = Plan();
  plan.arms[1].variant.model_name = "vit";
  EXPECT_EQ(Start(plan).status().message(), "two arms are the same: vit:dense");
  plan.arms[1].variant.attention = "knn:k=3";
  EXPECT_THAT(Start(plan), Fails(absl::StatusCode::kUnimplemented, "experiment.no_variants"));
  auto view = ArmView("detector", "dense");
  view->task = VisionTask::kDetection;
  catalog_.Serve(std::make_shared<ArmModelFake>(view));
  plan = Plan();
  plan.arms[1].variant.model_name = "detector";
  EXPECT_THAT(Start(plan), Fails(absl::StatusCode::kInvalidArgument, "experiment.other_kind"));
  ASSERT_TRUE(Start(Plan()).ok()) << "what was refused holds nothing";
  EXPECT_THAT(Start(Plan()), Fails(absl::StatusCode::kAlreadyExists, "experiment.exists"));
  EXPECT_THAT(Start(Plan("another")),
              Fails(absl::StatusCode::kAlreadyExists, "experiment.model_taken"));
}

TEST_F(TrafficExperimentsTest, SoManyRunAndSoManyAreKept) {
  Make({.max_running = 1, .max_ended = 2});
  ASSERT_TRUE(Start(Plan("a")).ok());
  Serve("vit2", "dense");
  ExperimentPlan second = Plan("b");
  second.model_name = second.arms[0].variant.model_name = "vit2";
  EXPECT_THAT(Start(second), Fails(absl::StatusCode::kResourceExhausted, "experiment.too_many"));
  for (const std::string name : {"a", "b", "c", "d"}) {
    if (name != "a") {
      ASSERT_TRUE(Start(Plan(name)).ok()) << name;
    }
    ASSERT_TRUE(live_->Stop(name).ok());
    clock_.Advance(kMillisecond);
  }
  const auto names = [this] {
    std::vector<std::string> names;
    for (const LiveExperiment& one : live_->List()) names.push_back(one.plan.name);
    return names;
  };
  EXPECT_TRUE(Eventually([&] { return names().size() == 2; })) << "nothing needs to start for that";
  EXPECT_THAT(names(), testing::ElementsAre("c", "d")) << "the oldest are forgotten";
  EXPECT_EQ(counts_.observers, 2);
  ASSERT_TRUE(Start(Plan("e")).ok());
  EXPECT_THAT(names(), testing::ElementsAre("c", "d", "e"));
}

TEST_F(TrafficExperimentsTest, AnotherAttentionIsServedForAsLongAsItRuns) {
  const auto lease = std::make_shared<int>(1);
  Make({}, [&](const Variant& variant, CancellationPtr) -> absl::StatusOr<LeasedModel> {
    EXPECT_EQ(variant.attention, "knn:k=3");
    EXPECT_EQ(catalog_.Acquire("vit", "")->use_count(), 2)
        << "the catalog's and this one: an unload waits for no arm that loads";
    Serve("variant.vit", "knn:k=3");
    return LeasedModel{
        .model_name = "variant.vit", .weights_of_attention = "dense", .lease = lease};
  });
  ExperimentPlan plan = Plan();
  plan.arms[1].variant = {.model_name = "vit", .attention = "knn:k=3"};
  const auto started = Start(plan);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ(started->arms[1].weights_of_attention, "dense");
  EXPECT_EQ(started->arms[1].attention, "knn:k=3");
  EXPECT_EQ(started->arms[1].model_name, "variant.vit");
  EXPECT_EQ(started->arms[1].name, "vit:knn:k=3") << "not the one that it is served under";
  EXPECT_EQ(lease.use_count(), 2) << "the test's and the experiment's";
  bool has_gone_there = false;
  for (int i = 0; i < 100; ++i) {
    has_gone_there = has_gone_there || Request(absl::StrCat(i)) == "vit:knn:k=3";
  }
  EXPECT_TRUE(has_gone_there);
  ASSERT_TRUE(live_->Stop("trial").ok());
  EXPECT_TRUE(Eventually([&] { return lease.use_count() == 1; }));
}

TEST_F(TrafficExperimentsTest, NoRequestWaitsWhileArmsLoad) {
  Notification loads, go_on;
  Make({}, [&](const Variant&, CancellationPtr) -> absl::StatusOr<LeasedModel> {
    loads.Notify();
    go_on.Wait();
    Serve("variant.vit", "knn:k=3");
    return LeasedModel{.model_name = "variant.vit"};
  });
  Serve("vit2", "dense");
  ExperimentPlan beside = Plan("beside");
  beside.model_name = beside.arms[0].variant.model_name = "vit2";
  ASSERT_TRUE(Start(beside).ok());
  ExperimentPlan plan = Plan();
  plan.arms[1].variant = {.model_name = "vit", .attention = "knn:k=3"};
  auto started = std::async(std::launch::async, [&] { return Start(plan); });
  loads.Wait();
  auto routed = std::async(std::launch::async, [&] {
    return std::pair(Request("somebody"), live_->Route("vit2", "somebody") != nullptr);
  });
  const bool in_time = routed.wait_for(std::chrono::minutes(1)) == std::future_status::ready;
  EXPECT_TRUE(in_time);
  EXPECT_NE(started.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  go_on.Notify();
  EXPECT_EQ(routed.get(), std::pair(std::string(), true))
      << "the model answers until all is loaded";
  EXPECT_TRUE(started.get().ok());
  EXPECT_NE(Request("somebody"), "");
}

TEST_F(TrafficExperimentsTest, AServerThatDrainsStartsNoneAndGoesOnRouting) {
  ASSERT_TRUE(Start(Plan()).ok());
  live_->Stop();
  EXPECT_NE(Request("somebody"), "");
  Serve("vit2", "dense");
  ExperimentPlan plan = Plan("late");
  plan.model_name = plan.arms[0].variant.model_name = "vit2";
  EXPECT_THAT(Start(plan), Fails(absl::StatusCode::kUnavailable, "server.draining"));
}

// Requests from several threads while experiments start, stop, are forgotten and lose an arm: each
// is answered by a model.
TEST_F(TrafficExperimentsTest, NothingIsLostWhileExperimentsComeAndGo) {
  std::atomic<bool> stop = false;
  std::atomic<int> answered = 0;
  std::vector<std::thread> callers;
  for (int thread = 0; thread < 3; ++thread) {
    callers.emplace_back([&, thread] {
      for (int i = 0; !stop; ++i) {
        const std::string key = absl::StrCat(thread, "-", i % 50);
        const std::unique_ptr<RoutedRequest> routed = live_->Route("vit", key);
        if (routed != nullptr) {
          ASSERT_NE(routed->model(), nullptr);
          routed->OnAnswered(absl::StatusCode::kOk, StageTimes(0), kNever);
          routed->OnLeft();
        } else {
          ASSERT_TRUE(catalog_.Acquire("vit", "").ok());
        }
        ++answered;
      }
    });
  }
  for (int round = 0; round < 60; ++round) {
    const auto started = Start(Plan());
    ASSERT_TRUE(started.ok()) << started.status();
    const int before = answered;
    while (answered < before + 100) std::this_thread::yield();
    if (round % 3 == 0) {
      ASSERT_TRUE(catalog_.Unload("other").ok());
    }
    while (answered < before + 200) std::this_thread::yield();
    ASSERT_TRUE(live_->Stop("trial").ok());
    Serve("other", "knn:k=9");
    ASSERT_TRUE(live_->Delete("trial").ok());
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(counts_.observers, 0);
}

}  // namespace
}  // namespace fovea
