#include "server/repository/model_repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/testing/watched_thread.h"
#include "tests/server/repository/repository_fixture.h"

namespace fovea {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ModelRepositoryTest : public RepositoryFixture {};

TEST_F(ModelRepositoryTest, LoadsEveryModelAndReportsTheOnesThatFail) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  disk_.Write("typo/model.textproto", "spec_version: 1\nbakcbone: \"x\"");
  disk_.Write("two words/model.textproto", kPlainSpec);
  models_.Fail("dogs", FailedPrecondition("model.test", "no such backbone"));
  Open({});
  EXPECT_NE(Acquire("cats"), nullptr);
  EXPECT_EQ(CodeOf("dogs"), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf("typo"), absl::StatusCode::kNotFound);
  EXPECT_THAT(Index(),
              ElementsAre("cats/1 ready", "dogs/1 unavailable no such backbone",
                          "typo/ unavailable model.textproto:2: unknown field \"bakcbone\""));
  EXPECT_EQ(observer_.Loads().size(), 3);
  EXPECT_THAT(observer_.Ignored(), ElementsAre("two words"));
}

TEST_F(ModelRepositoryTest, ARepositoryThatIsNotThereIsAnErrorAtTheStart) {
  std::vector<std::unique_ptr<RepositoryFs>> files;
  files.push_back(MakeRepositoryFs(disk_.root()));
  files.push_back(MakeRepositoryFs(disk_ / "missing"));
  const auto repository =
      ModelRepository::Create({}, std::move(files), models_.Factory(), observer_);
  EXPECT_EQ(repository.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(repository.status().message(),
            "there is no folder " + (disk_ / "missing").string() +
                ": give the folder that holds the models' folders with --model-repository");
}

TEST_F(ModelRepositoryTest, AModelsOwnFolderIsToldFromARepository) {
  disk_.AddModel("cats");
  const std::string folder = (disk_ / "cats").string();
  for (const std::string& given : {folder, folder + "/"}) {
    std::vector<std::unique_ptr<RepositoryFs>> files;
    files.push_back(MakeRepositoryFs(given));
    const auto repository =
        ModelRepository::Create({}, std::move(files), models_.Factory(), observer_);
    EXPECT_EQ(repository.status().message(),
              given + " is a model's folder; give its parent: --model-repository " +
                  disk_.root().string());
  }
}

TEST_F(ModelRepositoryTest, SenselessOptionsAreRefused) {
  const auto code = [&](ModelRepositoryOptions options) {
    std::vector<std::unique_ptr<RepositoryFs>> files;
    files.push_back(MakeRepositoryFs(disk_.root()));
    return ModelRepository::Create(std::move(options), std::move(files), models_.Factory(),
                                   observer_)
        .status()
        .code();
  };
  EXPECT_EQ(code({.poll_period = 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.loader_threads = 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.load_models = {"cats"}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.control = ModelControl::kExplicit, .load_models = {"../cats"}}),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ModelRepositoryTest, TheNewestServedVersionAnswersToAnEmptyOne) {
  disk_.AddModel("cats", "version_policy { latest { num_versions: 2 } }", 9);
  disk_.AddVersion("cats", 10);
  disk_.AddVersion("cats", 8);
  Open({});
  EXPECT_EQ(Acquire("cats")->view()->version, "10");
  EXPECT_EQ(Acquire("cats", "9")->view()->version, "9");
  EXPECT_EQ(CodeOf("cats", "8"), absl::StatusCode::kNotFound);
  const auto view = repository_->Find("cats", "9");
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_THAT((*view)->served_versions, ElementsAre("9", "10"));
}

// docs/faults.md, row 25.
TEST_F(ModelRepositoryTest, HostileNamesAndVersionsAreInvalidAndUnknownOnesNotFound) {
  disk_.AddModel("cats");
  OpenExplicit();
  for (const std::string& name :
       {std::string("../cats"), std::string("/etc/passwd"), std::string("a/b"),
        std::string("%2e%2e"), std::string("c\0ats", 5), std::string(" cats"),
        std::string(10'000, 'c'), std::string("c\xd0\xb0ts"), std::string(""), std::string("..")}) {
    EXPECT_EQ(CodeOf(name), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(repository_->Find(name, "").status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(repository_->Load(name, "").code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(repository_->Unload(name).code(), absl::StatusCode::kInvalidArgument) << name;
  }
  for (const char* version : {"-1", "0001", "0", "18446744073709551616", "1 ", "v 1"}) {
    EXPECT_EQ(CodeOf("cats", version), absl::StatusCode::kInvalidArgument) << version;
  }
  EXPECT_EQ(CodeOf("cats", "2"), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf("dogs"), absl::StatusCode::kNotFound);
  EXPECT_EQ(repository_->Load("dogs", "").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(repository_->Unload("dogs").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready"))
      << "asking for a name must leave nothing behind";
}

TEST_F(ModelRepositoryTest, AModelThatLoadsForTheFirstTimeIsUnavailable) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  models_.Hold("cats");
  Open({}, /*start=*/false);
  EXPECT_EQ(CodeOf("cats"), absl::StatusCode::kNotFound);
  EXPECT_TRUE(repository_->Start().ok());
  models_.AwaitHeld("cats");
  EXPECT_EQ(CodeOf("cats"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf("cats", "1"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf("dogs"), absl::StatusCode::kUnavailable) << "it waits for the loader thread";
  EXPECT_THAT(Index(), ElementsAre("cats/1 loading is built", "dogs/ loading"));
  models_.Release("cats");
  repository_->WaitUntilTried();
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready", "dogs/1 ready"));
}

TEST_F(ModelRepositoryTest, SeveralLoadersLoadSeveralModels) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  models_.Hold("cats");
  models_.Hold("dogs");
  Open({.loader_threads = 2}, /*start=*/false);
  EXPECT_TRUE(repository_->Start().ok());
  models_.AwaitHeld("cats");
  models_.AwaitHeld("dogs");
  models_.Release("cats");
  models_.Release("dogs");
  repository_->WaitUntilTried();
}

TEST_F(ModelRepositoryTest, ExplicitControlLoadsWhatItIsTold) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  OpenExplicit({"cats"});
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready", "dogs/ unavailable"));
  EXPECT_TRUE(repository_->Load("dogs", "").ok());
  EXPECT_TRUE(repository_->Unload("cats").ok());
  EXPECT_THAT(Index(), ElementsAre("cats/1 unavailable unloaded", "dogs/1 ready"));
  EXPECT_EQ(CodeOf("cats"), absl::StatusCode::kNotFound);
  EXPECT_TRUE(repository_->Unload("cats").ok()) << "a second time does no harm";
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready", "dogs/1 ready"));
}

// What SIGHUP does.
TEST_F(ModelRepositoryTest, ARescanLoadsWhatIsNewOrMendedAndUnloadsWhatIsGone) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  disk_.Write("typo/model.textproto", "bakcbone");
  Open({});
  EXPECT_EQ(models_.Begun("cats"), 1);
  disk_.AddModel("mice");
  disk_.AddModel("typo");
  disk_.Remove("dogs");
  EXPECT_TRUE(repository_->Rescan());
  repository_->WaitUntilComplete();
  while (CodeOf("dogs") != absl::StatusCode::kNotFound || Acquire("mice") == nullptr) {
    std::this_thread::yield();
  }
  EXPECT_NE(Acquire("typo"), nullptr);
  EXPECT_EQ(models_.Begun("cats"), 1) << "what has not changed is left alone";
}

TEST_F(ModelRepositoryTest, InExplicitControlARescanIsNothing) {
  OpenExplicit();
  disk_.AddModel("cats");
  EXPECT_FALSE(repository_->Rescan());
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_EQ(models_.Begun("cats"), 1);
}

TEST_F(ModelRepositoryTest, NamesThatCallersMakeUpWhileTheDiskFailsAreNotKept) {
  OpenExplicit();
  faults_->listing = faults_->opening = true;
  for (int i = 0; i < 10; ++i) {
    const std::string name = "made_up_" + std::to_string(i);
    EXPECT_EQ(repository_->Load(name, "").code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_THAT(Index(), ElementsAre());
}

TEST_F(ModelRepositoryTest, OtherControlModesRefuseToLoadAndUnload) {
  disk_.AddModel("cats");
  for (const ModelControl control : {ModelControl::kNone, ModelControl::kPoll}) {
    Open({.control = control});
    EXPECT_EQ(repository_->Load("cats", "").code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(repository_->Unload("cats").code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(Acquire("cats"), nullptr);
    repository_.reset();
  }
}

TEST_F(ModelRepositoryTest, UnloadReturnsWhenTheLastRequestIsDone) {
  disk_.AddModel("cats");
  OpenExplicit();
  std::shared_ptr<const FakeServable> request = Acquire("cats");
  std::atomic<bool> returned = false;
  std::thread unloader([&] {
    EXPECT_TRUE(repository_->Unload("cats").ok());
    returned = true;
  });
  while (CodeOf("cats") != absl::StatusCode::kNotFound) std::this_thread::yield();
  EXPECT_THAT(Index(), ElementsAre("cats/1 unloading unloaded"));
  EXPECT_FALSE(returned);
  EXPECT_EQ(models_.Alive(), 1);
  request.reset();
  unloader.join();
  EXPECT_EQ(models_.Alive(), 0);
}

TEST_F(ModelRepositoryTest, WeightsThatDoNotFitTogetherLoadOneAfterTheOther) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  const auto file = static_cast<int64_t>(EmptySafetensors().size());
  for (const int64_t bytes : {2 * file - 1, file, int64_t{1}}) {  // 1: each is larger than all
    Open({.control = ModelControl::kExplicit, .loader_threads = 2, .load_bytes = bytes});
    const int before = models_.Begun("dogs");
    models_.Hold("cats");
    std::future<absl::Status> cats = LoadInBackground("cats");
    models_.AwaitHeld("cats");
    std::future<absl::Status> dogs = LoadInBackground("dogs");
    clock_.AwaitWaiters(1);
    EXPECT_EQ(models_.Begun("dogs"), before) << "of " << bytes << " bytes";
    models_.Release("cats");
    EXPECT_TRUE(cats.get().ok());
    EXPECT_TRUE(dogs.get().ok());
    repository_.reset();
  }
}

TEST_F(ModelRepositoryTest, WeightsThatFitTogetherLoadAtTheSameTime) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  models_.Hold("cats");
  models_.Hold("dogs");
  Open({.loader_threads = 2, .load_bytes = 2 * static_cast<int64_t>(EmptySafetensors().size())},
       /*start=*/false);
  EXPECT_TRUE(repository_->Start().ok());
  models_.AwaitHeld("cats");
  models_.AwaitHeld("dogs");
  models_.Release("cats");
  models_.Release("dogs");
  repository_->WaitUntilTried();
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready", "dogs/1 ready"));
}

// docs/faults.md, row 31.
TEST_F(ModelRepositoryTest, TheOldVersionServesUntilTheNewOneIsReady) {
  disk_.AddModel("cats");
  OpenExplicit();
  models_.Hold("cats");
  std::future<absl::Status> loaded = LoadInBackground("cats");
  models_.AwaitHeld("cats");
  std::shared_ptr<const FakeServable> request = Acquire("cats");
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->serial(), 1);
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready"));
  models_.Release("cats");
  EXPECT_TRUE(loaded.get().ok());
  EXPECT_EQ(Acquire("cats")->serial(), 2);
  EXPECT_EQ(models_.Alive(), 2) << "the request still holds the old one";
  request.reset();
  models_.AwaitAlive(1);
}

TEST_F(ModelRepositoryTest, AReplacedVersionIsNeverDestroyedOnTheThreadOfARequest) {
  disk_.AddModel("cats");
  OpenExplicit();
  std::shared_ptr<const FakeServable> request = Acquire("cats");
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  std::thread::id requests_thread;
  std::thread([&] {
    requests_thread = std::this_thread::get_id();
    request.reset();
  }).join();
  models_.AwaitAlive(1);
  EXPECT_THAT(models_.Destroyers(), Not(Contains(requests_thread)));
}

TEST_F(ModelRepositoryTest, NoRequestFailsWhileAModelIsReloadedAgainAndAgain) {
  disk_.AddModel("cats");
  OpenExplicit();
  std::atomic<bool> stop = false;
  std::atomic<int> served = 0, failed = 0;
  std::vector<std::thread> requests;
  for (int i = 0; i < 3; ++i) {
    requests.emplace_back([&, i] {
      while (!stop) ++(repository_->Acquire("cats", i % 2 ? "" : "1").ok() ? served : failed);
    });
  }
  for (int i = 0; i < 50 || served < 1000; ++i) EXPECT_TRUE(repository_->Load("cats", "").ok());
  stop = true;
  for (std::thread& request : requests) request.join();
  EXPECT_EQ(failed, 0);
}

TEST_F(ModelRepositoryTest, ANewVersionReplacesTheOldWithoutAGap) {
  disk_.AddModel("cats", "", 1);
  OpenExplicit();
  std::atomic<bool> stop = false;
  std::atomic<int> asked = 0, failed = 0;
  std::thread request([&] {
    for (; !stop; ++asked) failed += !repository_->Acquire("cats", "").ok();
  });
  while (asked == 0) std::this_thread::yield();
  for (int version = 2; version < 12; ++version) {
    disk_.AddVersion("cats", version);
    EXPECT_TRUE(repository_->Load("cats", "").ok());
  }
  stop = true;
  request.join();
  EXPECT_EQ(failed, 0);
  models_.AwaitAlive(1);
  observer_.AwaitUnloads(10);
  EXPECT_THAT(Index(), ElementsAre("cats/11 ready"));
}

// docs/faults.md, row 32.
TEST_F(ModelRepositoryTest, AFailedReloadLeavesTheOldVersionServing) {
  disk_.AddModel("cats");
  OpenExplicit();
  models_.Fail("cats", FailedPrecondition("weights.test", "out of memory"));
  EXPECT_EQ(repository_->Load("cats", "").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Acquire("cats")->serial(), 1);
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready out of memory"));
  EXPECT_EQ(observer_.Loads().back().status.message(), "out of memory");
  EXPECT_TRUE(observer_.Loads().back().serving);

  models_.Fail("cats", absl::OkStatus());
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready"));
}

TEST_F(ModelRepositoryTest, ABrokenSpecLeavesTheOldVersionServing) {
  disk_.AddModel("cats");
  OpenExplicit();
  disk_.Write("cats/model.textproto", "max_batch_size: 1e9");
  EXPECT_EQ(repository_->Load("cats", "").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(Acquire("cats"), nullptr);
  EXPECT_THAT(Index(), ElementsAre(HasSubstr("cats/1 ready model.textproto:1: ")));
}

TEST_F(ModelRepositoryTest, AModelThatVanishedServesOnInExplicitControl) {
  disk_.AddModel("cats");
  OpenExplicit();
  disk_.Remove("cats");
  EXPECT_EQ(repository_->Load("cats", "").code(), absl::StatusCode::kNotFound);
  EXPECT_NE(Acquire("cats"), nullptr);
}

TEST_F(ModelRepositoryTest, ANewVersionThatFailsLeavesTheOldOneServing) {
  disk_.AddModel("cats", "", 1);
  OpenExplicit();
  disk_.Write("cats/2/model.safetensors", "PK\x03\x04 a zip archive");
  const absl::Status status = repository_->Load("cats", "");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("unsupported weight format"));
  EXPECT_EQ(Acquire("cats")->view()->version, "1");
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready",
                                   HasSubstr("cats/2 unavailable unsupported weight format")));
  // Without the broken one, its row goes as well.
  disk_.Remove("cats/2");
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready"));
}

// docs/faults.md, row 33.
TEST_F(ModelRepositoryTest, ADiskErrorFailsTheLoadAndNothingElse) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  OpenExplicit({"cats"});
  for (std::atomic<bool>* fault : {&faults_->listing, &faults_->opening, &faults_->reading}) {
    *fault = true;
    EXPECT_EQ(repository_->Load("dogs", "").code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(repository_->Load("cats", "").code(), absl::StatusCode::kUnavailable);
    EXPECT_NE(Acquire("cats"), nullptr);
    EXPECT_THAT(Index(), Contains(HasSubstr("cats/1 ready")));
    *fault = false;
  }
  EXPECT_TRUE(repository_->Load("dogs", "").ok());
}

TEST_F(ModelRepositoryTest, ARepositoryThatDisappearsAndComesBackLosesNothing) {
  disk_.AddModel("cats");
  OpenExplicit();
  const std::filesystem::path aside = disk_.root().string() + "_aside";
  std::filesystem::rename(disk_.root(), aside);
  EXPECT_FALSE(repository_->Load("cats", "").ok());
  EXPECT_NE(Acquire("cats"), nullptr);
  std::filesystem::rename(aside, disk_.root());
  EXPECT_TRUE(repository_->Load("cats", "").ok());
}

TEST_F(ModelRepositoryTest, LabelsThatTheLoadedModelDoesNotHaveClassesForAreRefused) {
  disk_.AddModel("cats");
  disk_.Write("cats/labels.txt", "tom\nkitty\n");
  models_.SetClasses(3);
  OpenExplicit();
  EXPECT_THAT(Index(), ElementsAre("cats/1 unavailable labels.txt has 2 lines, and the model has 3 "
                                   "classes"));
  models_.SetClasses(2);
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_THAT(*Acquire("cats")->view()->labels, ElementsAre("tom", "kitty"));
  models_.AwaitAlive(1);
}

// Every request takes the lock under which what serves is published; a thousand labels of a hundred
// models were copied there at each change.
TEST_F(ModelRepositoryTest, PublishingCopiesNoLabels) {
  disk_.AddModel("cats");
  disk_.Write("cats/labels.txt", "tom\nkitty\n");
  disk_.AddModel("dogs");
  models_.SetClasses(2);
  OpenExplicit({"cats"});
  const auto before = *repository_->Find("cats", "");
  EXPECT_TRUE(repository_->Load("dogs", "").ok());
  const auto after = *repository_->Find("cats", "");
  EXPECT_NE(before, after) << "the table was published anew";
  EXPECT_EQ(before->labels, after->labels) << "one copy in memory";
}

TEST_F(ModelRepositoryTest, TheFactoryReadsTheFileThatWasChecked) {
  disk_.AddModel("cats");
  OpenExplicit();
  EXPECT_EQ(Acquire("cats")->weights(), EmptySafetensors());
}

// docs/faults.md, row 28.
TEST_F(ModelRepositoryTest, AFileThatIsWrittenIntoWhileItLoadsIsRefused) {
  disk_.AddModel("cats");
  OpenExplicit();
  models_.Hold("cats");
  std::future<absl::Status> loaded = LoadInBackground("cats");
  models_.AwaitHeld("cats");
  disk_.Append("cats/1/model.safetensors", "more");
  models_.Release("cats");
  EXPECT_EQ(loaded.get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Acquire("cats")->serial(), 1);
  models_.AwaitAlive(1);
}

TEST_F(ModelRepositoryTest, ModelsThatShareWeightsFollowTheirSource) {
  disk_.AddModel("dense");
  disk_.Write("knn/model.textproto", kPlainSpec + std::string("weights_of: \"dense\""));
  disk_.AddModel("other");
  OpenExplicit();
  EXPECT_EQ(Acquire("knn")->weights(), EmptySafetensors());
  disk_.Write("dense/1/model.safetensors", EmptySafetensors() + "  ");
  EXPECT_TRUE(repository_->Load("dense", "").ok());
  observer_.AwaitLoads(5);  // three at the start, the source, and the one that shares it
  EXPECT_EQ(Acquire("knn")->weights(), EmptySafetensors() + "  ");
  EXPECT_EQ(models_.Begun("other"), 1);
  // Where the file is the same, nothing needs to follow.
  EXPECT_TRUE(repository_->Load("dense", "").ok());
  EXPECT_TRUE(repository_->Load("other", "").ok());
  EXPECT_EQ(models_.Begun("knn"), 2);
}

TEST_F(ModelRepositoryTest, ALoadMayOverrideTheConfig) {
  disk_.AddModel("cats", "max_batch_size: 8");
  OpenExplicit();
  EXPECT_TRUE(repository_->Load("cats", R"({"max_batch_size": 3})").ok());
  EXPECT_EQ(Acquire("cats")->view()->max_batch_size, 3);
  EXPECT_EQ(repository_->Load("cats", R"({"max_batch_size": -3})").code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Acquire("cats")->view()->max_batch_size, 3);
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready")) << "a bad request says nothing of the model";
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_EQ(Acquire("cats")->view()->max_batch_size, 8);
}

TEST_F(ModelRepositoryTest, AnOverrideLastsWhenTheSharedWeightsChange) {
  disk_.AddModel("dense");
  disk_.Write("knn/model.textproto", kPlainSpec + std::string("weights_of: \"dense\""));
  OpenExplicit();
  EXPECT_TRUE(repository_->Load("knn", R"({"max_batch_size": 3})").ok());
  disk_.AddVersion("dense", 1);
  EXPECT_TRUE(repository_->Load("dense", "").ok());
  observer_.AwaitLoads(5);
  EXPECT_EQ(Acquire("knn")->view()->max_batch_size, 3);
}

TEST_F(ModelRepositoryTest, ListenersHearWhatBecomesReadyAndWhatStops) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  OpenExplicit({"cats"});
  std::vector<std::string> heard;  // the listener's for as long as there is a repository
  repository_->OnReadinessChange(
      [&](std::string_view name, std::string_view version, Readiness now) {
        heard.push_back((now == Readiness::kReady ? "+" : "-") + std::string(name) + "/" +
                        std::string(version));
      });
  EXPECT_THAT(heard, ElementsAre("+cats/1"));
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_THAT(heard, ElementsAre("+cats/1")) << "a reload is no change";
  EXPECT_TRUE(repository_->Load("dogs", "").ok());
  disk_.AddVersion("cats", 2);
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_TRUE(repository_->Unload("cats").ok());
  EXPECT_THAT(heard, ElementsAre("+cats/1", "+dogs/1", "+cats/2", "-cats/1", "-cats/2"));
  repository_.reset();
  EXPECT_EQ(heard.back(), "-dogs/1");
}

TEST_F(ModelRepositoryTest, WaitingLoadsAreBounded) {
  OpenExplicit({});
  std::vector<std::future<absl::Status>> loads;
  for (int i = 0; i < limits::kMaxPendingLoads + 1; ++i) {
    const std::string name = "cats" + std::to_string(i);
    disk_.AddModel(name);
    models_.Hold(name);
    loads.push_back(LoadInBackground(name));
  }
  // All wait for the held one, but for the one that came when the others were there.
  const auto answered = [](const std::future<absl::Status>& load) {
    return load.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready;
  };
  auto refused = loads.end();
  while (refused == loads.end()) refused = std::find_if(loads.begin(), loads.end(), answered);
  EXPECT_EQ(ReasonOf(refused->get()), "repository.busy");
  loads.erase(refused);
  for (int i = 0; i < limits::kMaxPendingLoads + 1; ++i) {
    models_.Release("cats" + std::to_string(i));
  }
  for (auto& load : loads) EXPECT_TRUE(load.get().ok());
}

TEST_F(ModelRepositoryTest, DestructionWaitsForTheLastHandle) {
  disk_.AddModel("cats");
  OpenExplicit();
  std::shared_ptr<const FakeServable> request = Acquire("cats");
  {
    WatchedThread owner([&] { repository_.reset(); });
    EXPECT_TRUE(owner.WaitsBeforeItEnds());
    EXPECT_EQ(models_.Alive(), 1);
    request.reset();
  }
  EXPECT_EQ(models_.Alive(), 0);
}

}  // namespace
}  // namespace fovea
