// Control mode `poll`: what is done about a change on disk, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "server/repository/change_detector.h"
#include "tests/server/repository/repository_fixture.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ChangeDetector::Scan Seen(std::map<std::string, std::string> fingerprints, bool complete = true,
                          Nanos when = 0) {
  return {when, std::move(fingerprints), complete};
}

MATCHER_P(Model, name, "") { return arg.model == name; }

TEST(ChangeDetectorTest, AChangeCountsWhenTwoScansAgreeOnIt) {
  ChangeDetector detector;
  detector.Done("cats", "1");
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}})), IsEmpty());
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}})), IsEmpty());
  EXPECT_THAT(detector.Next(Seen({{"cats", "2"}})), IsEmpty());
  EXPECT_THAT(detector.Next(Seen({{"cats", "3"}})), IsEmpty()) << "still being written";
  EXPECT_THAT(detector.Next(Seen({{"cats", "3"}})), ElementsAre(Model("cats")));
  EXPECT_THAT(detector.Next(Seen({{"cats", "3"}})), IsEmpty()) << "it is under way";
  detector.Done("cats", "3");
  EXPECT_THAT(detector.Next(Seen({{"cats", "3"}})), IsEmpty());
}

TEST(ChangeDetectorTest, ANewModelCountsWhenTwoScansAgreeOnIt) {
  ChangeDetector detector;
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}})), IsEmpty());
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}})), ElementsAre(Model("cats")));
}

TEST(ChangeDetectorTest, AModelIsGoneWhenTwoWholeScansMissIt) {
  ChangeDetector detector;
  detector.Done("cats", "1");
  detector.Next(Seen({{"cats", "1"}}));
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(detector.Next(Seen({}, /*complete=*/false)), IsEmpty());
  }
  EXPECT_THAT(detector.Next(Seen({})), IsEmpty());
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}})), IsEmpty())
      << "a folder that was being replaced";
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}})), IsEmpty());
  EXPECT_THAT(detector.Next(Seen({})), IsEmpty());
  EXPECT_THAT(detector.Next(Seen({})), ElementsAre(Model("cats")));
  detector.Done("cats", "");
  EXPECT_THAT(detector.Next(Seen({})), IsEmpty());
}

TEST(ChangeDetectorTest, WhatShouldBeTriedAgainIsTriedAgain) {
  ChangeDetector detector;
  detector.Next(Seen({{"cats", "1"}}));
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}})), ElementsAre(Model("cats")));
  detector.Done("cats", "");
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}})), ElementsAre(Model("cats")));
  detector.Done("cats", "1");
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}})), IsEmpty());
}

TEST(ChangeDetectorTest, AChangeSettlesOverTimeHoweverOftenItIsLookedAt) {
  ChangeDetector detector(5 * kSecond);
  const auto scan = [&](Nanos when, std::string fingerprint) {
    return detector.Next(Seen({{"cats", std::move(fingerprint)}}, true, when * kSecond));
  };
  EXPECT_THAT(scan(100, "1"), IsEmpty());
  EXPECT_THAT(scan(104, "1"), IsEmpty());
  EXPECT_THAT(scan(105, "2"), IsEmpty());
  for (int second = 106; second < 110; ++second) EXPECT_THAT(scan(second, "2"), IsEmpty());
  const auto changes = scan(110, "2");
  ASSERT_THAT(changes, ElementsAre(Model("cats")));
  EXPECT_EQ(changes[0].fingerprint, "2");
}

TEST(ChangeDetectorTest, OneLookIsNotEnoughHoweverLateItIs) {
  ChangeDetector detector(5 * kSecond);
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}}, true, 1000 * kSecond)), IsEmpty());
  EXPECT_THAT(detector.Next(Seen({{"cats", "1"}}, true, 1005 * kSecond)),
              ElementsAre(Model("cats")));
}

class PollTest : public RepositoryFixture {
 protected:
  void OpenPolling(Nanos settle = 0) {
    Open({.control = ModelControl::kPoll, .poll_period = kSecond, .settle = settle});
  }
  // Looks at the disk so many times; what that sets off may still be under way afterwards.
  void Scan(int times) {
    for (int i = 0; i < times; ++i) {
      clock_.AwaitWaiters(1);
      clock_.Advance(kSecond);
      clock_.AwaitWaiters(1);
    }
  }
  // Looks on until so many loads have ended. The job before may not quite be over when its end is
  // heard of, and until it is, its model is left alone.
  void ScanUntilLoads(size_t count) {
    while (observer_.Loads().size() < count) Scan(1);
  }
};

TEST_F(PollTest, NothingHappensWhileNothingChanges) {
  disk_.AddModel("cats");
  OpenPolling();
  Scan(5);
  EXPECT_EQ(models_.Begun("cats"), 1);
}

TEST_F(PollTest, ChangedWeightsAreLoaded) {
  disk_.AddModel("cats");
  OpenPolling();
  disk_.Write("cats/1/model.safetensors", EmptySafetensors() + " ");
  ScanUntilLoads(2);
  EXPECT_EQ(Acquire("cats")->weights(), EmptySafetensors() + " ");
}

TEST_F(PollTest, ANewModelAndANewVersionAreLoaded) {
  disk_.AddModel("cats");
  OpenPolling();
  disk_.AddModel("dogs");
  disk_.AddVersion("cats", 2);
  ScanUntilLoads(3);
  EXPECT_NE(Acquire("dogs"), nullptr);
  observer_.AwaitUnloads(1);
  EXPECT_THAT(Index(), ElementsAre("cats/2 ready", "dogs/1 ready"));
}

TEST_F(PollTest, AFolderThatIsStillBeingCopiedIsLeftAlone) {
  OpenPolling();
  disk_.AddModel("cats");
  for (int i = 0; i < 5; ++i) {
    Scan(1);
    disk_.Append("cats/1/model.safetensors", "more");
  }
  EXPECT_EQ(models_.Begun("cats"), 0);
  ScanUntilLoads(1);
  EXPECT_NE(Acquire("cats"), nullptr);
}

// docs/faults.md, row 68, here and in the next two.
TEST_F(PollTest, ACopyThatPausesIsLeftAloneForTheTimeToSettle) {
  disk_.AddModel("cats");
  OpenPolling(3 * kSecond);
  for (int i = 0; i < 4; ++i) {
    disk_.Append("cats/1/model.safetensors", "more");
    Scan(3);  // two of them see no change
  }
  EXPECT_EQ(models_.Begun("cats"), 1);
  ScanUntilLoads(2);
  EXPECT_EQ(Acquire("cats")->weights(), EmptySafetensors() + "moremoremoremore");
}

TEST_F(PollTest, AVersionWhoseWeightsAreStillCopiedUnderAnotherNameIsNotTried) {
  disk_.AddModel("cats");
  OpenPolling();
  disk_.Write("cats/2/model.safetensors.part", "");
  for (int i = 0; i < 4; ++i) {
    Scan(1);
    disk_.Append("cats/2/model.safetensors.part", "more");
  }
  EXPECT_EQ(observer_.Loads().size(), 1U);
  disk_.Remove("cats/2/model.safetensors.part");
  disk_.AddVersion("cats", 2);
  ScanUntilLoads(2);
  EXPECT_NE(Acquire("cats", "2"), nullptr);
}

TEST_F(PollTest, HalfOfAnUpdateThatBeginsBetweenTheLookAndTheLoadIsNotLoaded) {
  disk_.AddModel("cats");
  disk_.Write("cats/labels.txt", "old\n");
  models_.SetClasses(1);
  OpenPolling();
  disk_.AddModel("busy");
  disk_.AddVersion("cats", 1);
  disk_.AddModel("dogs");
  models_.Hold("busy");
  Scan(2);  // all have settled; cats waits behind busy, and dogs behind cats
  models_.AwaitHeld("busy");
  disk_.Write("cats/labels.txt", "new\n");  // its weights are still to come
  models_.Release("busy");
  observer_.AwaitLoads(3);  // dogs too, so that the turn of cats is over
  Scan(1);
  EXPECT_EQ(models_.Begun("cats"), 1) << "new labels on old weights";
  disk_.Write("cats/1/model.safetensors", EmptySafetensors() + " ");
  ScanUntilLoads(4);
  EXPECT_EQ(Acquire("cats")->weights(), EmptySafetensors() + " ");
  EXPECT_THAT(*Acquire("cats")->view()->labels, ElementsAre("new"));
}

TEST_F(PollTest, ARemovedModelIsUnloadedAndForgotten) {
  disk_.AddModel("cats");
  disk_.AddModel("dogs");
  OpenPolling();
  Scan(1);
  disk_.Remove("cats");
  Scan(2);
  observer_.AwaitUnloads(1);
  EXPECT_EQ(CodeOf("cats"), absl::StatusCode::kNotFound);
  EXPECT_THAT(Index(), ElementsAre("dogs/1 ready"));
  disk_.AddModel("cats");
  ScanUntilLoads(3);
  EXPECT_NE(Acquire("cats"), nullptr);
}

// docs/faults.md, row 33.
TEST_F(PollTest, ARepositoryThatCannotBeReadUnloadsNothing) {
  disk_.AddModel("cats");
  OpenPolling();
  faults_->listing = true;
  Scan(4);
  EXPECT_EQ(observer_.Unreadable(), 4);
  EXPECT_NE(Acquire("cats"), nullptr);
  faults_->listing = false;
  Scan(2);
  EXPECT_EQ(models_.Begun("cats"), 1);
}

TEST_F(PollTest, ALoadThatFailedForNowIsTriedAgain) {
  disk_.AddModel("cats");
  models_.Fail("cats", Unavailable("test", "no memory"));
  OpenPolling();
  EXPECT_EQ(CodeOf("cats"), absl::StatusCode::kNotFound);
  models_.Fail("cats", absl::OkStatus());
  ScanUntilLoads(2);
  EXPECT_NE(Acquire("cats"), nullptr);
}

TEST_F(PollTest, ALoadThatCannotSucceedIsTriedAgainOnlyWhenTheFilesChange) {
  disk_.AddModel("cats");
  models_.Fail("cats", FailedPrecondition("test", "no such backbone"));
  OpenPolling();
  Scan(4);
  EXPECT_EQ(models_.Begun("cats"), 1);
  models_.Fail("cats", absl::OkStatus());
  disk_.AddModel("cats");
  ScanUntilLoads(2);
  EXPECT_NE(Acquire("cats"), nullptr);
}

TEST_F(PollTest, ModelsThatShareWeightsFollowTheirSource) {
  disk_.AddModel("dense");
  disk_.Write("knn/model.textproto", kPlainSpec + std::string("weights_of: \"dense\""));
  OpenPolling();
  Scan(1);
  disk_.Write("dense/1/model.safetensors", EmptySafetensors() + " ");
  ScanUntilLoads(4);
  EXPECT_EQ(Acquire("dense")->weights(), EmptySafetensors() + " ");
  EXPECT_EQ(Acquire("knn")->weights(), EmptySafetensors() + " ");
}

TEST_F(PollTest, AModelThatLoadsForLongHoldsUpNeitherTheScansNorItself) {
  disk_.AddModel("cats");
  OpenPolling();
  disk_.AddModel("cats");
  models_.Hold("cats");
  Scan(6);
  models_.AwaitHeld("cats");
  EXPECT_EQ(models_.Begun("cats"), 2) << "once for the start, once for the change";
  models_.Release("cats");
  observer_.AwaitLoads(2);
}

}  // namespace
}  // namespace fovea
