// Requests for a model whose traffic an experiment has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/limits.h"
#include "base/status.h"
#include "server/api/server_api.h"
#include "server/core/testing/notification.h"
#include "tests/server/api/fake_live_experiments.h"
#include "tests/server/api/fakes.h"

namespace fovea {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RoutedCallTest : public testing::Test {
 protected:
  RoutedCallTest() {
    api_ = *ServerApi::Create({.request_bytes = 1 << 20, .experiments = &live_}, catalog_, catalog_,
                              &observer_, SteadyClock());
    api_->SetServing(true);
    live_.arm = *catalog_.Acquire("vit", "");
  }

  // Its status. `principal`: who asks; `fails`: encoding the answer does.
  absl::Status Ask(const std::string& version, const std::string& key,
                   const std::string& principal = "", bool fails = false) {
    RequestOrigin origin;
    origin.experiment_key = key;
    auto call = std::make_unique<InferenceCall>(*api_, Caller{.principal = principal}, "Infer",
                                                api_->clock().Now(), deadline_, std::move(origin));
    absl::Status ended;
    call->Run(
        /*received_bytes=*/8,
        [&](InferenceRequest& request, CheckModel check_model) -> absl::Status {
          request.id = "r1";
          request.model_name = "vit";
          request.model_version = version;
          FOVEA_RETURN_IF_ERROR(check_model(request));
          request.input = NamedTensors{};
          return request.TakeMemory(unpacked_);
        },
        [&](InferenceResponse& response) -> absl::StatusOr<int64_t> {
          receipt_ = response.receipt;
          if (fails) return Internal("test.encode", "it cannot be encoded");
          return 8;
        },
        [&](const absl::Status& status, const std::string&) {
          live_.heard.emplace_back("done");
          ended = status;
          call.reset();
        });
    return ended;
  }

  // Of the message, its record, and what has been unpacked of it.
  static std::string Read(int64_t unpacked) {
    return "read r1 of " + std::to_string(8 + limits::kRequestRecordBytes + unpacked);
  }

  int64_t unpacked_ = 0;
  Nanos deadline_ = kNever;
  FakeInference inference_;
  FakeCatalog catalog_{inference_};
  RecordingObserver observer_;
  FakeLiveExperiments live_;
  std::unique_ptr<ServerApi> api_;
  Receipt receipt_;
};

TEST_F(RoutedCallTest, AnExperimentHearsOfARequestFromItsArrivalUntilItHasLeft) {
  EXPECT_EQ(Ask("", "me"), absl::OkStatus());
  EXPECT_THAT(live_.heard,
              ElementsAre("route me", Read(0), "results", "answered OK", "done", "left"));
  EXPECT_EQ(receipt_.experiment, "trial");
  EXPECT_EQ(receipt_.experiment_arm, "vit:knn:k=9");
  EXPECT_EQ(observer_.requests().at(0).model, live_.arm.get()) << "it counts at its arm";
}

TEST_F(RoutedCallTest, WhatHasBeenUnpackedIsTheCopysToo) {
  unpacked_ = 1000;
  EXPECT_EQ(Ask("", "me"), absl::OkStatus());
  EXPECT_EQ(live_.heard.at(1), Read(1000));
}

TEST_F(RoutedCallTest, AnExperimentHearsHowMuchTimeThereWas) {
  EXPECT_EQ(Ask("", "me"), absl::OkStatus());
  EXPECT_EQ(live_.allowed, kNever);
  deadline_ = api_->clock().Now() + 60 * kSecond;
  EXPECT_EQ(Ask("", "me"), absl::OkStatus());
  EXPECT_GT(live_.allowed, 30 * kSecond);
  EXPECT_LE(live_.allowed, 60 * kSecond);
}

// Its copy holds memory of the api.
TEST_F(RoutedCallTest, TheApiStaysUntilTheExperimentHasHeardThatTheAnswerHasLeft) {
  Notification leaving;
  std::atomic<bool> left = false;
  live_.on_left = [&] {
    leaving.Notify();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    left = true;
  };
  std::thread asks([&] { EXPECT_EQ(Ask("", "me"), absl::OkStatus()); });
  leaving.Wait();
  api_.reset();
  EXPECT_TRUE(left);
  asks.join();
}

TEST_F(RoutedCallTest, WhoGivesNoKeyIsKnownByTheOneThatIsProved) {
  EXPECT_EQ(Ask("", "", "gate-1"), absl::OkStatus());
  EXPECT_EQ(live_.heard.at(0), "route gate-1");
  EXPECT_EQ(Ask("", "me", "gate-1"), absl::OkStatus());
  EXPECT_EQ(live_.heard.at(6), "route me");
}

TEST_F(RoutedCallTest, WhoNamesAVersionGetsThat) {
  EXPECT_EQ(Ask("1", "me"), absl::OkStatus());
  EXPECT_THAT(live_.heard, ElementsAre("done"));
  EXPECT_EQ(receipt_.experiment, "");
}

TEST_F(RoutedCallTest, WithoutAnExperimentTheModelHasIt) {
  live_.arm = nullptr;
  EXPECT_EQ(Ask("", "me"), absl::OkStatus());
  EXPECT_THAT(live_.heard, ElementsAre("done"));
}

TEST_F(RoutedCallTest, AFailureIsHeardOf) {
  inference_.FailWith(Internal("test.failed", "it has failed"));
  EXPECT_TRUE(absl::IsInternal(Ask("", "me")));
  EXPECT_THAT(live_.heard, ElementsAre("route me", Read(0), "answered INTERNAL", "done", "left"));
}

TEST_F(RoutedCallTest, AnAnswerThatCannotBeEncodedIsAFailure) {
  EXPECT_TRUE(absl::IsInternal(Ask("", "me", "", /*fails=*/true)));
  EXPECT_EQ(live_.heard.at(3), "answered INTERNAL");
}

TEST_F(RoutedCallTest, Row89AKeyThatIsTooLongIsRefused) {
  EXPECT_EQ(Ask("", std::string(limits::kMaxExperimentKeyBytes, 'k')), absl::OkStatus());
  live_.heard.clear();
  const absl::Status refused = Ask("", std::string(limits::kMaxExperimentKeyBytes + 1, 'k'));
  EXPECT_EQ(ReasonOf(refused), "experiment.key");
  EXPECT_THAT(live_.heard, ElementsAre("done"));
}

TEST_F(RoutedCallTest, AServerWithoutExperimentsSaysSo) {
  const auto plain = *ServerApi::Create({}, catalog_, catalog_, nullptr, SteadyClock());
  EXPECT_EQ(ReasonOf(plain->Experiments().status()), "experiment.disabled");
  EXPECT_EQ(*api_->Experiments(), &live_);
}

}  // namespace
}  // namespace fovea
