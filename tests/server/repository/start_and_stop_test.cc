// When a repository is complete, and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/testing/watched_thread.h"
#include "tests/server/repository/repository_fixture.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StartAndStopTest : public RepositoryFixture {
 protected:
  // Until models_.Release("cats").
  void LoadDogsWhileCatsHoldTheMemory(std::string_view more_of_dogs = "") {
    disk_.AddModel("cats");
    disk_.AddModel("dogs", more_of_dogs);
    Open({.control = ModelControl::kExplicit,
          .loader_threads = 3,
          .load_bytes = static_cast<int64_t>(EmptySafetensors().size())});
    models_.Hang("cats");
    cats_ = LoadInBackground("cats");
    models_.AwaitHeld("cats");
    dogs_ = LoadInBackground("dogs");
    clock_.AwaitWaiters(1);
  }

  std::future<absl::Status> cats_, dogs_;
};

std::vector<std::string> Missing(const ModelRepository& repository) {
  std::vector<std::string> rows;
  for (const IndexEntry& row : repository.startup().missing) {
    rows.push_back(row.name + ": " + row.reason);
  }
  return rows;
}

TEST_F(StartAndStopTest, TheStartIsCompleteWhenEveryModelOfItHasLoadedOnce) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  Open({});
  EXPECT_EQ(repository_->startup().models, 2);
  EXPECT_EQ(repository_->startup().serving, 2);
  EXPECT_THAT(Missing(*repository_), IsEmpty());
  repository_->WaitUntilComplete();
}

TEST_F(StartAndStopTest, WhatIsMissingAtTheStartIsToldWithItsReason) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  disk_.Write("empty/notes.txt", "");
  disk_.Write("versionless/model.textproto", kPlainSpec);
  disk_.AddModel("newest", "version_policy { specific { versions: [7] } }");
  models_.Fail("dogs", FailedPrecondition("model.test", "no such backbone"));
  Open({});
  const std::vector<std::string> missing = {"dogs: no such backbone",
                                            "empty: the folder holds no model.textproto",
                                            "newest: the version policy serves no version there is",
                                            "versionless: the folder holds no version"};
  EXPECT_EQ(Missing(*repository_), missing);
  // The index and a request's answer say the same.
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready", "dogs/1 unavailable no such backbone",
                                   "empty/ unavailable the folder holds no model.textproto",
                                   "newest/ unavailable the version policy serves no version there "
                                   "is",
                                   "versionless/ unavailable the folder holds no version"));
  EXPECT_EQ(repository_->Acquire("versionless", "").status().message(),
            "Request for unknown model: 'versionless' is not loaded: the folder holds no version");
  EXPECT_EQ(repository_->Acquire("dogs", "1").status().message(),
            "Request for unknown model: 'dogs' is not loaded: no such backbone");
}

TEST_F(StartAndStopTest, TheTimeThatIsLeftIsForecastByWhatTheModelsBeforeTook) {
  for (const char* const name : {"ants", "bees", "cats", "dogs"}) disk_.AddModel(name);
  models_.Hold("ants");
  models_.Hold("bees");
  Open({}, /*start=*/false);
  EXPECT_TRUE(repository_->Start().ok());
  models_.AwaitHeld("ants");  // on the only thread
  clock_.Advance(2 * kSecond);
  EXPECT_EQ(repository_->startup().left, std::nullopt) << "no model tells how long one takes";
  models_.Release("ants");
  models_.AwaitHeld("bees");
  EXPECT_EQ(repository_->startup().left, 6 * kSecond);
  EXPECT_FALSE(repository_->WaitUntilTried(clock_.Now()));
  models_.Release("bees");
  EXPECT_TRUE(repository_->WaitUntilTried());
  EXPECT_EQ(repository_->startup().left, std::nullopt) << "nothing is left";
}

TEST_F(StartAndStopTest, AModelToLoadThatIsNotThereIsMissing) {
  disk_.AddModel("cats");
  OpenExplicit({"cats", "nope"});
  EXPECT_THAT(Missing(*repository_), ElementsAre("nope: there is no model nope"));
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready", "nope/ unavailable there is no model nope"));
  EXPECT_EQ(CodeOf("nope"), absl::StatusCode::kNotFound);
}

TEST_F(StartAndStopTest, ALaterLoadOrAnUnloadCompletesTheStart) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  models_.Fail("cats", FailedPrecondition("model.test", "broken"));
  models_.Fail("dogs", FailedPrecondition("model.test", "broken"));
  OpenExplicit();
  std::thread waiting([&] { repository_->WaitUntilComplete(); });
  models_.Fail("cats", absl::OkStatus());
  EXPECT_TRUE(repository_->Load("cats", "").ok());
  EXPECT_THAT(Missing(*repository_), ElementsAre("dogs: broken"));
  EXPECT_TRUE(repository_->Unload("dogs").ok());
  waiting.join();
  EXPECT_EQ(repository_->startup().models, 2);
  EXPECT_EQ(repository_->startup().serving, 1) << "the other one was unloaded";
  EXPECT_TRUE(repository_->Unload("cats").ok()) << "what has loaded once is missed no more";
  EXPECT_THAT(Missing(*repository_), IsEmpty());
}

// Else it would be loaded after its unload. (docs/faults.md, row 33, as what follows.)
TEST_F(StartAndStopTest, AnUnloadEndsALoadThatHasNotBegun) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  models_.Hold("cats");
  Open({.control = ModelControl::kExplicit, .load_models = {"*"}}, /*start=*/false);
  EXPECT_TRUE(repository_->Start().ok());
  models_.AwaitHeld("cats");  // on the only thread
  EXPECT_TRUE(repository_->Unload("dogs").ok());
  models_.Release("cats");
  repository_->WaitUntilComplete();
  EXPECT_EQ(models_.Begun("dogs"), 0);
  EXPECT_THAT(Index(), ElementsAre("cats/1 ready",
                                   "dogs/ unavailable the model was unloaded before its turn to "
                                   "load"));
}

TEST_F(StartAndStopTest, AStopEndsTheWaitForWhatIsMissing) {
  disk_.Write("empty/notes.txt", "");
  Open({});
  std::thread waiting([&] { repository_->WaitUntilComplete(); });
  repository_->Stop();
  waiting.join();
  EXPECT_THAT(Missing(*repository_), SizeIs(1));
}

// docs/faults.md, row 44.
TEST_F(StartAndStopTest, StopGivesUpLoadsAndKeepsServing) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  disk_.AddModel("mice");
  OpenExplicit({"cats"});
  models_.Hold("dogs");
  std::future<absl::Status> running = LoadInBackground("dogs");
  models_.AwaitHeld("dogs");
  std::future<absl::Status> waiting = LoadInBackground("mice");
  repository_->Stop();
  EXPECT_EQ(running.get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(waiting.get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(models_.Begun("mice"), 0);
  EXPECT_NE(Acquire("cats"), nullptr);
  EXPECT_EQ(repository_->Load("mice", "").code(), absl::StatusCode::kUnavailable);
}

TEST_F(StartAndStopTest, StopDuringTheFirstLoadsEndsTheWaitForThem) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  models_.Hold("cats");
  Open({}, /*start=*/false);
  EXPECT_TRUE(repository_->Start().ok());
  models_.AwaitHeld("cats");
  repository_->Stop();
  repository_->WaitUntilTried();
  EXPECT_EQ(models_.Alive(), 0);
}

// docs/faults.md, row 44.
TEST_F(StartAndStopTest, ADiskThatHangsHoldsUpNoStopAndNoCallThatAskedForALoad) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  OpenExplicit({"cats"});
  faults_->Hang();
  std::future<absl::Status> load = LoadInBackground("dogs");
  faults_->AwaitHanging();
  repository_->Stop();
  EXPECT_EQ(load.get().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(Acquire("cats"), nullptr) << "what serves serves on";
  faults_->Release();
}

// Whoever tries again must not use up the threads of those who ask for loads.
TEST_F(StartAndStopTest, ASecondCallForOneModelIsRefusedWhileTheFirstWaits) {
  disk_.AddModel("cats");
  OpenExplicit({"cats"});
  models_.Hold("cats");
  std::future<absl::Status> load = LoadInBackground("cats");
  models_.AwaitHeld("cats");
  EXPECT_EQ(ReasonOf(repository_->Load("cats", "")), "repository.busy");
  models_.Release("cats");
  EXPECT_TRUE(load.get().ok());
  const auto serving = Acquire("cats");  // it is not gone until this is
  std::future<absl::Status> unload =
      std::async(std::launch::async, [&] { return repository_->Unload("cats"); });
  while (CodeOf("cats") != absl::StatusCode::kNotFound) std::this_thread::yield();
  EXPECT_EQ(ReasonOf(repository_->Unload("cats")), "repository.busy");
  repository_->Stop();
  EXPECT_EQ(unload.get().code(), absl::StatusCode::kUnavailable);
}

// docs/faults.md, row 33.
TEST_F(StartAndStopTest, AnUnloadOfAModelThatHasNeverLoadedEndsTheCallThatWaits) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  Open({.control = ModelControl::kExplicit, .loader_threads = 1});
  models_.Hold("cats");
  cats_ = LoadInBackground("cats");
  models_.AwaitHeld("cats");
  absl::Status loaded;
  {
    const WatchedThread dogs([&] { loaded = repository_->Load("dogs", ""); });
    EXPECT_TRUE(dogs.WaitsBeforeItEnds());
    EXPECT_TRUE(repository_->Unload("dogs").ok());
  }
  EXPECT_EQ(ReasonOf(loaded), "repository.unloaded");
  EXPECT_EQ(repository_->Unload("dogs").code(), absl::StatusCode::kNotFound);
  models_.Release("cats");
  EXPECT_TRUE(cats_.get().ok());
  EXPECT_EQ(models_.Begun("dogs"), 0);
}

// docs/faults.md, row 33.
TEST_F(StartAndStopTest, ALoadDoesNotWaitForEverForTheMemoryOfOneThatHangs) {
  LoadDogsWhileCatsHoldTheMemory();
  clock_.Advance(limits::kMaxLoadWaitSeconds * kSecond);
  EXPECT_EQ(ReasonOf(dogs_.get()), "repository.busy");
  EXPECT_EQ(models_.Begun("dogs"), 0);
  models_.Release("cats");
  EXPECT_TRUE(cats_.get().ok());
  EXPECT_TRUE(repository_->Load("dogs", "").ok());
}

// However many are before it: a server that loads large models one by one loads them all.
TEST_F(StartAndStopTest, ALoadWaitsForMemoryAsLongAsOthersGiveSomeBack) {
  const Nanos most = limits::kMaxLoadWaitSeconds * kSecond;
  disk_.AddModel("mice");
  LoadDogsWhileCatsHoldTheMemory();
  models_.Hang("dogs");
  clock_.Advance(most / 2);
  std::future<absl::Status> mice = LoadInBackground("mice");
  clock_.AwaitWaiters(2);
  clock_.Advance(most / 2 - kSecond);
  models_.Release("cats");
  EXPECT_TRUE(cats_.get().ok());
  models_.AwaitHeld("dogs");
  clock_.Advance(most - kSecond);
  clock_.AwaitWaiters(1);
  models_.Release("dogs");
  EXPECT_TRUE(dogs_.get().ok());
  EXPECT_TRUE(mice.get().ok());
}

TEST_F(StartAndStopTest, AModelsVersionsWaitTogetherForTheMemoryOfALoadThatHangs) {
  for (const int64_t version : {2, 3}) disk_.AddVersion("dogs", version);
  LoadDogsWhileCatsHoldTheMemory("version_policy { all {} }");
  clock_.Advance(limits::kMaxLoadWaitSeconds * kSecond);
  EXPECT_EQ(ReasonOf(dogs_.get()), "repository.busy");
  models_.Release("cats");
}

// A load that waits for the memory that another holds, which hangs.
TEST_F(StartAndStopTest, AStopEndsALoadThatWaitsForMemory) {
  LoadDogsWhileCatsHoldTheMemory();
  repository_->Stop();
  observer_.AwaitLoads(1);
  const RecordingObserver::Load load = observer_.Loads()[0];
  EXPECT_EQ(load.model, "dogs");
  EXPECT_EQ(ReasonOf(load.status), "server.draining");
  EXPECT_EQ(models_.Begun("dogs"), 0);
  models_.Release("cats");
}

TEST_F(StartAndStopTest, ADiskThatHangsAtTheStartHoldsUpNoStop) {
  disk_.AddModel("cats");
  Open({}, /*start=*/false);
  faults_->Hang();
  std::thread starting([&] {
    EXPECT_TRUE(repository_->Start().ok());
    repository_->WaitUntilTried();
  });
  faults_->AwaitHanging();
  repository_->Stop();
  EXPECT_EQ(CodeOf("cats"), absl::StatusCode::kNotFound);
  faults_->Release();
  starting.join();
}

}  // namespace
}  // namespace fovea
