// A training that is broken off and goes on, and one that ends early.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "model_zoo/training/optimisation/checkpoint.h"
#include "model_zoo/training/optimisation/trainer.h"
#include "tests/model_zoo/training/tiny_training.h"

namespace fovea::models::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResumeTest : public ::testing::Test {
 protected:
  ResumeTest()
      : folder_(std::filesystem::path(::testing::TempDir()) /
                ("resume_test_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~ResumeTest() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_;
};

// Broken off within an epoch and between two, by a task that throws at a step.
TEST_F(ResumeTest, ATrainingThatWentOnGivesTheSameBits) {
  Tiny options;
  options.training.keep_best = true;
  const Outcome whole = TrainTiny(options);
  Outcome broken;
  std::vector<int64_t> firsts;  // steps of each round that are told first
  for (const int64_t stop : {5, 8, 13, 24}) {
    broken = {.backbone = Fresh()};
    const auto task = MakeShapeClassificationTask(*broken.backbone, options.pictures);
    struct Stop {};
    bool begun = false;
    const CheckpointFolder folder(folder_, "one");
    try {
      Train(
          *broken.backbone, *task, options.training,
          {.folder = &folder, .minutes = 0, .resume = true},
          [&](const StepReport& step) {
            if (!std::exchange(begun, true)) firsts.push_back(step.step);
            // What is told before its checkpoint is lost with the process.
            if (step.step == stop && stop < 24) throw Stop();
          },
          [&](const EpochReport& epoch) { broken.epochs.push_back(epoch); });
    } catch (const Stop&) {
    }
  }
  // Each goes on behind the last checkpoint, which is the one of the step before the break.
  EXPECT_THAT(firsts, ElementsAre(1, 5, 8, 13));
  EXPECT_TRUE(SameParameters(*whole.backbone, *broken.backbone));
  ASSERT_EQ(broken.epochs.size(), whole.epochs.size());
  for (size_t i = 0; i < whole.epochs.size(); ++i) {
    EXPECT_EQ(broken.epochs[i].epoch, whole.epochs[i].epoch);
    for (const Measure& measure : whole.epochs[i].training) {
      EXPECT_EQ(ValueOf(broken.epochs[i].training, measure.name), measure.value) << measure.name;
    }
    EXPECT_EQ(broken.epochs[i].score, whole.epochs[i].score);
  }
}

TEST_F(ResumeTest, ACheckpointOfAnotherTrainingIsRefusedAndLeft) {
  Tiny options;
  options.training.epochs = 1;
  Outcome outcome{.backbone = Fresh()};
  const auto train = [&](const std::string& identity, bool resume) {
    const CheckpointFolder folder(folder_, identity);
    TrainOn(outcome, options, {.folder = &folder, .resume = resume});
  };
  train("one", /*resume=*/false);
  outcome.backbone = Fresh();
  EXPECT_THROW(train("two", /*resume=*/true), c10::ValueError);
  EXPECT_FALSE(std::filesystem::is_empty(folder_));
}

TEST_F(ResumeTest, WhatDiffersIsToldAndNothingElse) {
  CheckpointFolder(folder_, "a\nsamples: 3\nlabel: cat\nlabel: dog\nz\n").Write({.step = 1}, {});
  try {
    CheckpointFolder(folder_, "a\nsamples: 3\nlabel: dog\nlabel: cat\nz\n").Read({});
    FAIL() << "was taken";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                HasSubstr("Then:\n  label: cat\n  label: dog\nNow:\n  label: dog\n  label: cat\n"));
  }
  try {
    CheckpointFolder(folder_, "a\nsamples: 3\nlabel: cat\nlabel: dog\nz\nz\n").Read({});
    FAIL() << "was taken";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("Then:\n  nothing\nNow:\n  z\n"));
  }
}

TEST_F(ResumeTest, ATrainingThatHasDoneMoreStepsThanItHasEnds) {
  Tiny options;
  Outcome outcome{.backbone = Fresh()};
  const CheckpointFolder folder(folder_, "one");
  TrainOn(outcome, options, {.folder = &folder});
  options.training.epochs = 1;
  const std::shared_ptr<Backbone> backbone = Fresh();
  const auto task = MakeShapeClassificationTask(*backbone, options.pictures);
  // Throws where it would go on, for ever.
  Train(
      *backbone, *task, options.training, {.folder = &folder, .resume = true},
      [](const StepReport& step) { throw std::runtime_error("step " + std::to_string(step.step)); },
      [](const EpochReport&) {});
  EXPECT_TRUE(SameParameters(*backbone, *outcome.backbone));
}

TEST_F(ResumeTest, FoldersOfOthersAreLeftAlone) {
  const std::filesystem::path theirs[] = {folder_ / "step-3" / "notes.txt",
                                          folder_ / "writing" / "thesis.txt"};
  for (const auto& file : theirs) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "mine";
  }
  // Killed while it was removed.
  std::filesystem::create_directories(folder_ / "step-2");
  const CheckpointFolder folder(folder_, "one");
  EXPECT_FALSE(folder.Read({}).has_value());
  folder.Write({.step = 4}, {});
  EXPECT_EQ(folder.Read({})->step, 4);
  folder.Remove();
  for (const auto& file : theirs) EXPECT_TRUE(std::filesystem::exists(file)) << file;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "step-2"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "step-4"));
}

TEST_F(ResumeTest, ALinkToAnotherDiskStays) {
  const std::filesystem::path disk = folder_ / "disk", link = folder_ / "finder~checkpoint";
  std::filesystem::create_directories(disk);
  std::filesystem::create_directory_symlink(disk, link);
  const CheckpointFolder folder(link, "one");
  folder.Remove();  // a start without --resume
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  folder.Write({.step = 4}, {});
  EXPECT_TRUE(std::filesystem::exists(disk / "step-4"));
  folder.Remove();
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::is_empty(disk));
}

TEST_F(ResumeTest, WhatALinkNamesIsMadeWhereItIsGone) {
  const std::filesystem::path disk = folder_ / "disk", link = folder_ / "finder~checkpoint";
  std::filesystem::create_directories(folder_);
  std::filesystem::create_directory_symlink("disk", link);
  CheckpointFolder(link, "one").Write({.step = 4}, {});
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::exists(disk / "step-4"));
}

TEST_F(ResumeTest, AFileInTheFoldersPlaceIsRefusedAndLeft) {
  std::ofstream(folder_) << "no folder";
  EXPECT_ANY_THROW(CheckpointFolder(folder_, "one"));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_));
}

TEST_F(ResumeTest, AFolderIsOneTrainingsAtATime) {
  {
    const CheckpointFolder first(folder_, "one");
    first.Write({.step = 4}, {});
    try {
      const CheckpointFolder second(folder_, "one");
      FAIL() << "was taken";
    } catch (const c10::ValueError& error) {
      EXPECT_THAT(error.what_without_backtrace(), HasSubstr("another training"));
    }
    EXPECT_TRUE(std::filesystem::exists(folder_ / "step-4"));
  }
  const CheckpointFolder next(folder_, "one");
  EXPECT_EQ(next.Read({})->step, 4);
}

// One that ends removes the folder, which another one may have opened already.
TEST_F(ResumeTest, AFolderThatATrainingHasIsThereHoweverOthersEnd) {
  const std::filesystem::path folder = folder_ / "finder~checkpoint";
  std::atomic<bool> failed = false;
  const auto fail = [&](const char* why) {
    ADD_FAILURE() << why;
    failed = true;
  };
  // Each until it has had the folder so often: how often it finds it taken is the scheduler's.
  const auto come_and_go = [&] {
    for (int had = 0; had < 1000 && !failed;) {
      try {
        const CheckpointFolder mine(folder, "one");
        ++had;
        if (!std::filesystem::exists(folder)) fail("it is gone while one has it");
      } catch (const c10::ValueError&) {
        // Another one has it.
      } catch (const std::exception& error) {
        fail(error.what());
      }
    }
  };
  std::thread other(come_and_go);
  come_and_go();
  other.join();
  EXPECT_FALSE(failed);
}

TEST_F(ResumeTest, AFolderInWhichNothingWasWrittenIsGone) {
  { const CheckpointFolder folder(folder_ / "finder~checkpoint", "one"); }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "finder~checkpoint"));
}

TEST_F(ResumeTest, WhatAKilledProcessLeftHalfWrittenIsNoCheckpoint) {
  std::filesystem::create_directories(folder_ / ".fovea-checkpoint-being-written");
  std::ofstream(folder_ / ".fovea-checkpoint-being-written/state.json") << "{";
  Tiny options;
  options.training.epochs = 1;
  Outcome outcome{.backbone = Fresh()};
  const CheckpointFolder folder(folder_, "one");
  TrainOn(outcome, options, {.folder = &folder, .resume = true});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "step-8/state.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / ".fovea-checkpoint-being-written"));
}

// A task whose loss is a parameter's square, and whose scores are given.
class Scored final : public TrainingTask {
 public:
  Scored(const Backbone& backbone, std::vector<double> scores)
      : parameter_(backbone.parameters().front()),
        others_(backbone.parameters()),
        scores_(std::move(scores)) {}

  BatchLoss Loss(int64_t /*step*/) override {
    at::Tensor loss = parameter_.square().sum();
    for (const at::Tensor& other : others_) loss = loss + 0 * other.sum();
    return {.total = loss, .measures = {{"training_loss", loss.item<double>()}}};
  }
  Validation Validate() override {
    seen.push_back(parameter_.detach().clone());
    return {.measures = {}, .score = scores_.at(seen.size() - 1)};
  }
  Validation ValidateServed(const Model& /*model*/) override { return {}; }

  std::vector<at::Tensor> seen;  // at each validation

 private:
  const at::Tensor parameter_;
  const std::vector<at::Tensor> others_;
  const std::vector<double> scores_;
};

TEST(PatienceTest, EndsWhenItIsLostAndKeepsTheBest) {
  const std::shared_ptr<Backbone> backbone = Fresh();
  Scored task(*backbone, {0.1, 0.5, 0.4, 0.5, 0.9});
  std::vector<EpochReport> epochs;
  Train(
      *backbone, task, {.epochs = 5, .steps_per_epoch = 1, .patience = 2}, {},
      [](const StepReport&) {}, [&](const EpochReport& epoch) { epochs.push_back(epoch); });
  EXPECT_EQ(epochs.size(), 4u);
  EXPECT_TRUE(at::equal(backbone->parameters().front(), task.seen.at(1)));
  EXPECT_FALSE(at::equal(task.seen.at(1), task.seen.at(3)));
}

TEST(PatienceTest, WithoutItAllEpochsRunAndTheLastIsKeptWhereAsked) {
  const std::shared_ptr<Backbone> backbone = Fresh();
  Scored task(*backbone, {0.9, 0.1, 0.1});
  Train(
      *backbone, task, {.epochs = 3, .steps_per_epoch = 1, .keep_best = false}, {},
      [](const StepReport&) {}, [](const EpochReport&) {});
  ASSERT_EQ(task.seen.size(), 3u);
  EXPECT_TRUE(at::equal(backbone->parameters().front(), task.seen.at(2)));
}

}  // namespace
}  // namespace fovea::models::training
