// A question with a known answer, before a version serves and while it does: docs/faults.md,
// row 70.
#include "server/repository/canary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "server/core/input_names.h"
#include "server/core/testing/notification.h"
#include "tests/server/repository/repository_fixture.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Bytes(const std::vector<float>& numbers) {
  std::string bytes(numbers.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

InferenceResponse Logits(const std::vector<float>& numbers) {
  InferenceResponse response;
  response.results = TensorResults{{.name = "logits",
                                    .shape = {1, static_cast<int64_t>(numbers.size())},
                                    .data = Bytes(numbers)}};
  return response;
}

InferenceResponse Class(int index, std::string label) {
  InferenceResponse response;
  response.results = ClassifyResults{{{.index = index, .label = std::move(label)}}};
  return response;
}

constexpr char kTopClass[] = "canary { input: \"cat.jpg\" top_class: \"cat\" }\n";

class CanaryTest : public RepositoryFixture {
 protected:
  void AddModel(int64_t version = 1, const std::string& canary = kTopClass) {
    disk_.AddModel("cats", canary, version);
    disk_.Write("cats/cat.jpg", "a picture");
  }
  // A server that asks once a second.
  void OpenWatching() {
    Open({.control = ModelControl::kExplicit, .load_models = {"*"}, .canary_interval = kSecond});
  }
  void NextRound() {
    clock_.AwaitWaiters(1);
    clock_.Advance(kSecond);
  }
};

TEST_F(CanaryTest, AVersionIsAskedBeforeItServes) {
  AddModel();
  std::vector<std::string> asked;
  models_.AnswerWith([&](const InferenceRequest& request) {
    const auto& picture = std::get<ImageFiles>(request.input).files.at(0);
    std::string bytes(picture.size(), '\0');
    picture.CopyTo(0, bytes.size(), bytes.data());
    asked.push_back(request.model_name + "/" + request.model_version + " " + bytes);
    return Class(3, "cat");
  });
  OpenExplicit();
  EXPECT_THAT(asked, ElementsAre("cats/1 a picture"));
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready"));
}

TEST_F(CanaryTest, AWrongAnswerFailsTheLoadAndTheOldVersionServesOn) {
  AddModel(1);
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  OpenExplicit();
  disk_.AddVersion("cats", 2);
  models_.AnswerWith([](const InferenceRequest&) { return Class(4, "dog"); });
  const absl::Status status = repository_->Load("cats", "");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), "canary.failed");
  EXPECT_NE(Acquire("cats", "1"), nullptr);
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready",
                                   "cats/2 unavailable the canary's answer is wrong: class 4 (dog) "
                                   "comes first, and cat is expected"));
  models_.AwaitAlive(1);  // the refused one is gone
}

TEST_F(CanaryTest, AnErrorOfTheModelFailsTheLoad) {
  AddModel();
  models_.AnswerWith(
      [](const InferenceRequest&) { return Internal("executor.x", "the model failed"); });
  OpenExplicit();
  EXPECT_EQ(CodeOf("cats"), absl::StatusCode::kNotFound);
  EXPECT_THAT(Index(), ElementsAre(HasSubstr("cats/1 unavailable the canary's answer is wrong: ")));
}

TEST_F(CanaryTest, AFileThatIsNotThereFailsTheLoad) {
  disk_.AddModel("cats", kTopClass);
  OpenExplicit();
  EXPECT_THAT(Index(), ElementsAre("cats/1 unavailable the canary's cat.jpg does not exist"));
}

TEST_F(CanaryTest, TheFilesOfAVersionGoBeforeThoseOfTheModel) {
  AddModel();
  disk_.Write("cats/1/cat.jpg", "its own");
  size_t bytes = 0;
  models_.AnswerWith([&](const InferenceRequest& request) {
    bytes = std::get<ImageFiles>(request.input).files.at(0).size();
    return Class(3, "cat");
  });
  OpenExplicit();
  EXPECT_EQ(bytes, std::string("its own").size());
}

TEST_F(CanaryTest, ATensorIsAskedAtTheModelsSizeBehindAllPriorities) {
  disk_.AddModel("cats",
                 "canary { input: \"pixels.f32\" output_file: \"logits.f32\" }\n"
                 "dynamic_batching { priority_levels: 4 }");
  disk_.Write("cats/pixels.f32", Bytes(std::vector<float>(18, 0.5F)));
  disk_.Write("cats/logits.f32", Bytes({1, 2}));
  uint64_t priority = 0;
  std::vector<int64_t> shape;
  models_.AnswerWith([&](const InferenceRequest& request) {
    priority = request.priority;
    const InputTensor& tensor = std::get<NamedTensors>(request.input).at(0);
    shape = tensor.shape;
    EXPECT_EQ(tensor.name, kPixelValuesInput);
    EXPECT_EQ(std::get<WantedTensors>(request.options).outputs.at(0).name, "logits");
    return Logits({1, 2});
  });
  OpenExplicit();
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready"));
  EXPECT_THAT(shape, ElementsAre(1, 3, 2, 3));
  EXPECT_EQ(priority, 4U);
}

TEST_F(CanaryTest, AVersionThatAnswersWronglyLeavesServiceUntilItAnswersRightly) {
  AddModel();
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  OpenWatching();
  std::vector<Readiness> ready;  // listeners are called one at a time
  repository_->OnReadinessChange(
      [&](std::string_view, std::string_view, Readiness now) { ready.push_back(now); });
  NextRound();
  models_.AnswerWith([](const InferenceRequest&) { return Class(4, "dog"); });
  NextRound();
  EXPECT_FALSE(observer_.AwaitCanaries(1).status.ok());
  const absl::Status refused = repository_->Acquire("cats", "").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(refused), "model.out_of_service");
  EXPECT_EQ(CodeOf("cats", "1"), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Index(), ElementsAre(HasSubstr("cats/1 unavailable the canary's answer is wrong")));
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  NextRound();
  EXPECT_TRUE(observer_.AwaitCanaries(2).status.ok());
  EXPECT_NE(Acquire("cats"), nullptr);
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready"));
  repository_.reset();  // nobody tells the listener any more
  EXPECT_THAT(ready, ElementsAre(Readiness::kReady, Readiness::kOutOfService, Readiness::kReady,
                                 Readiness::kGone));
}

TEST_F(CanaryTest, AReloadBringsAVersionBack) {
  AddModel();
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  OpenWatching();
  models_.AnswerWith([](const InferenceRequest&) { return Class(4, "dog"); });
  NextRound();
  observer_.AwaitCanaries(1);
  EXPECT_FALSE(repository_->Load("cats", "").ok());
  EXPECT_EQ(CodeOf("cats"), absl::StatusCode::kUnavailable) << "it still answers wrongly";
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_NE(Acquire("cats"), nullptr);
}

TEST_F(CanaryTest, Row41NoCanaryBringsBackWhatIsLost) {
  AddModel(1, std::string(kTopClass) + "version_policy { all {} }");
  disk_.AddVersion("cats", 2);
  int asked_of_2 = 0;
  models_.AnswerWith([&](const InferenceRequest& request) {
    asked_of_2 += request.model_version == "2";
    return Class(3, "cat");
  });
  OpenWatching();
  EXPECT_EQ(asked_of_2, 1);
  models_.Lose("cats", Unavailable("device.lost", "gone"));  // the newest version, the last loaded
  EXPECT_EQ(CodeOf("cats", "2"), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*repository_->Find("cats", ""))->version, "1");
  NextRound();
  NextRound();
  clock_.AwaitWaiters(1);
  EXPECT_EQ(CodeOf("cats", "2"), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready", "cats/2 unavailable gone"));
  ASSERT_EQ(observer_.Lost().size(), 1);
  EXPECT_EQ(observer_.Lost()[0].version, 2);
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready", "cats/2 ready"));
  repository_.reset();
  EXPECT_EQ(asked_of_2, 2) << "it was asked of what is lost";
}

TEST_F(CanaryTest, Row41WhatIsLostWhileItLoadsNeverServes) {
  AddModel();
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  OpenExplicit();
  models_.AnswerWith([this](const InferenceRequest&) {
    models_.Lose("cats", Unavailable("device.lost", "gone"));
    return Class(3, "cat");
  });
  const absl::Status status = repository_->Load("cats", "");
  EXPECT_EQ(ReasonOf(status), "model.out_of_service");
  EXPECT_EQ(status.message(), "gone");
  const std::shared_ptr<const FakeServable> serving = Acquire("cats");
  ASSERT_NE(serving, nullptr) << "the old one serves on";
  EXPECT_EQ(serving->serial(), 1);
}

TEST_F(CanaryTest, WhileTheNewestIsOutOfServiceTheOneBeforeItAnswers) {
  AddModel(1, std::string(kTopClass) + "version_policy { all {} }");
  disk_.AddVersion("cats", 2);
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  OpenWatching();
  models_.AnswerWith([](const InferenceRequest& request) {
    return request.model_version == "2" ? Class(4, "dog") : Class(3, "cat");
  });
  NextRound();
  EXPECT_EQ(observer_.AwaitCanaries(1).version, 2);
  EXPECT_EQ((*repository_->Find("cats", ""))->version, "1");
  EXPECT_EQ(CodeOf("cats", "2"), absl::StatusCode::kUnavailable);
}

TEST_F(CanaryTest, Row69ALabelDoesNotMoveOntoAVersionThatIsOutOfService) {
  const std::string all = std::string(kTopClass) + "version_policy { all {} }";
  AddModel(1, all + "version_labels { key: \"stable\" value: 1 }");
  disk_.AddVersion("cats", 2);
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  OpenWatching();
  models_.AnswerWith([](const InferenceRequest& request) {
    return request.model_version == "2" ? Class(4, "dog") : Class(3, "cat");
  });
  NextRound();
  EXPECT_EQ(observer_.AwaitCanaries(1).version, 2);
  AddModel(1, all + "version_labels { key: \"stable\" value: 2 }");
  EXPECT_FALSE(repository_->Load("cats", "").ok());
  EXPECT_EQ((*repository_->Find("cats", "stable"))->version, "1");
}

class UnansweredCanaryTest : public CanaryTest, public testing::WithParamInterface<absl::Status> {};

TEST_P(UnansweredCanaryTest, SaysNothingOfItsVersion) {
  AddModel();
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  OpenWatching();
  int asked = 0;
  models_.AnswerWith([&](const InferenceRequest&) {
    ++asked;
    return GetParam();
  });
  NextRound();
  NextRound();
  clock_.AwaitWaiters(1);
  EXPECT_NE(Acquire("cats"), nullptr);
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready"));
  repository_.reset();
  EXPECT_EQ(asked, 2);
}

INSTANTIATE_TEST_SUITE_P(All, UnansweredCanaryTest,
                         testing::Values(Unavailable("queue.full", "the queue is full"),
                                         ResourceExhausted("request.memory",
                                                           "there is not so much memory")),
                         [](const auto& info) {
                           return ReasonOf(info.param) == "queue.full" ? "QueueFull" : "NoMemory";
                         });

TEST_F(CanaryTest, ALoadSaysWhyItsCanaryCouldNotBeAnswered) {
  AddModel();
  models_.AnswerWith([](const InferenceRequest&) {
    return ResourceExhausted("image.too_many_bytes", "at most 7 are taken");
  });
  OpenExplicit();
  EXPECT_THAT(Index(), ElementsAre("cats/1 unavailable the canary could not be answered: at most 7 "
                                   "are taken"));
  EXPECT_EQ(repository_->Load("cats", "").code(), absl::StatusCode::kUnavailable);
}

// Whichever version's turn it is.
TEST_F(CanaryTest, ARoundHoldsNoVersionThatWaitsForItsTurn) {
  AddModel();
  disk_.AddModel("dogs", "canary { input: \"dog.jpg\" top_class: \"cat\" }\n");
  disk_.Write("dogs/dog.jpg", "a picture");
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  OpenWatching();
  Notification asked, unloaded;
  models_.AnswerWith([&](const InferenceRequest& request) {
    EXPECT_EQ(request.model_name, "cats") << "dogs are gone when their turn comes";
    asked.Notify();
    unloaded.Wait();
    return Class(3, "cat");
  });
  NextRound();
  asked.Wait();
  EXPECT_TRUE(repository_->Unload("dogs").ok());
  models_.AwaitAlive(1);  // its memory is free while the round goes on
  unloaded.Notify();
  clock_.AwaitWaiters(1);
  EXPECT_NE(Acquire("cats"), nullptr);
}

TEST_F(CanaryTest, APollReadsNothingOfACanarysFiles) {
  AddModel();
  models_.AnswerWith([](const InferenceRequest&) { return Class(3, "cat"); });
  OpenExplicit();
  const int64_t before = faults_->BytesRead("cats/cat.jpg");
  EXPECT_GT(before, 0) << "it was read to be asked";
  std::vector<std::unique_ptr<RepositoryFs>> files;
  files.push_back(std::make_unique<FaultyFs>(MakeRepositoryFs(disk_.root()), faults_));
  const ModelFolders folders(std::move(files));
  for (int look = 0; look < 3; ++look) {
    EXPECT_TRUE(folders.Read("cats").versions.at(0).canary.has_value());
  }
  EXPECT_EQ(faults_->BytesRead("cats/cat.jpg"), before);
}

TEST(CanaryAnswerTest, NumbersMayBeOffByTheirTolerances) {
  Canary canary;
  canary.spec = {.input = "x.f32",
                 .output_file = "y.f32",
                 .absolute_tolerance = 0.5,
                 .relative_tolerance = 0.1};
  canary.files = std::make_shared<CanaryFiles>(CanaryFiles{.expected = Bytes({0, 10})});
  const ModelView model;
  const auto check = [&](const std::vector<float>& numbers) {
    return CheckCanaryAnswer(canary, model, Logits(numbers));
  };
  EXPECT_TRUE(check({0.5F, 11.5F}).ok());
  EXPECT_TRUE(check({-0.5F, 8.5F}).ok());
  EXPECT_THAT(std::string(check({0.6F, 10}).message()), HasSubstr("logits number 0 is 0.6"));
  EXPECT_THAT(std::string(check({0, 11.6F}).message()), HasSubstr("logits number 1 is 11.6"));
  EXPECT_FALSE(check({0, std::nanf("")}).ok());
  EXPECT_FALSE(check({0, std::numeric_limits<float>::infinity()}).ok());
  EXPECT_THAT(std::string(check({0, 10, 0}).message()), HasSubstr("logits has 3 numbers, and"));
  InferenceResponse other = Logits({0, 10});
  std::get<TensorResults>(other.results)[0].name = "boxes";
  EXPECT_FALSE(CheckCanaryAnswer(canary, model, other).ok());
  other = Logits({0, 10});
  std::get<TensorResults>(other.results)[0].type = DataType::kInt64;
  EXPECT_FALSE(CheckCanaryAnswer(canary, model, other).ok());
}

TEST(CanaryAnswerTest, AClassIsMeantByItsLabelOrItsNumber) {
  Canary canary;
  canary.spec = {.input = "x.jpg", .top_class = "7"};
  const ModelView model;
  EXPECT_TRUE(CheckCanaryAnswer(canary, model, Class(7, "cat")).ok());
  EXPECT_FALSE(CheckCanaryAnswer(canary, model, Class(8, "cat")).ok());
  canary.spec.top_class = "cat";
  EXPECT_TRUE(CheckCanaryAnswer(canary, model, Class(8, "cat")).ok());
  EXPECT_FALSE(CheckCanaryAnswer(canary, model, Class(8, "")).ok());
  InferenceResponse found;
  found.results = DetectResults(1);
  EXPECT_THAT(std::string(CheckCanaryAnswer(canary, model, found).message()),
              HasSubstr("nothing is found"));
  std::get<DetectResults>(found.results)[0].detections = {{.class_index = 7, .label = "cat"}};
  EXPECT_TRUE(CheckCanaryAnswer(canary, model, found).ok());
  InferenceResponse map;
  map.results = SegmentResults{
      {.classes = {{.class_index = 1, .label = "dog"}, {.class_index = 7, .label = "cat"}}}};
  EXPECT_FALSE(CheckCanaryAnswer(canary, model, map).ok());
}

}  // namespace
}  // namespace fovea
