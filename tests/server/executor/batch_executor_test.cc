#include "server/executor/batch_executor.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "kernels/memory/memory_ledger.h"
#include "model_zoo/model.h"
#include "server/core/testing/fake_clock.h"
#include "tests/resident_bytes.h"
#include "tests/server/executor/batch_executor_testing.h"

namespace fovea {
namespace {

using testing::ElementsAre;

TEST_F(BatchExecutorTest, WarmsUpEveryBatchSizeBeforeItIsReady) {
  auto model = std::make_unique<SummingModel>();
  SummingModel* raw = model.get();
  std::vector<int> reported;
  auto executor = BatchExecutor::CreateWithModel(
      std::move(model), {.max_batch_size = 3}, MakeCpuDevice({}), SteadyClock(),
      [&](const BatchSize& batch, Nanos) { reported.push_back(batch.images); });
  ASSERT_TRUE(executor.ok());
  EXPECT_THAT(reported, ElementsAre(3, 1));
  EXPECT_THAT(raw->batches_, ElementsAre(1, 3, 3, 2, 1, 1)) << "twice where the time is taken";
  EXPECT_GE((*executor)->peak_activation_bytes(), 3 * kNumbers * 4);
}

// An operator sees what lanes hold that no batch has needed yet.
TEST_F(BatchExecutorTest, ALaneOfTheCpuThatHasRunNothingTakesNoMemory) {
  constexpr int64_t kLargeSide = 1024;
  constexpr int64_t kInput = 8 * 3 * kLargeSide * kLargeSide * int64_t{sizeof(float)};
  auto model = std::make_unique<SummingModel>(
      1000, std::vector<models::ImageSize>{{kLargeSide, kLargeSide}});
  const int64_t before = ResidentBytes();
  const auto executor = BatchExecutor::CreateWithModel(
      std::move(model), {.max_batch_size = 8, .arrangement = {.lanes = 8}},
      MakeCpuDevice({.threads = 8, .lanes = 8}), SteadyClock(), nullptr);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const int64_t held = ResidentBytes() - before;
  EXPECT_GE(held, kInput) << "the first is warmed up";
  EXPECT_LT(held, 4 * kInput);
}

TEST_F(BatchExecutorTest, WarmsUpItsOwnShapeAndThenTheOthersTheLargestFirst) {
  auto model = std::make_unique<SummingModel>(
      1000, std::vector<models::ImageSize>{{kSide, 1}, {kSide, 2 * kSide}});
  SummingModel* raw = model.get();
  std::vector<std::pair<uint64_t, int>> reported;
  auto executor = BatchExecutor::CreateWithModel(
      std::move(model), {.max_batch_size = 2}, MakeCpuDevice({}), SteadyClock(),
      [&](const BatchSize& batch, Nanos) { reported.emplace_back(batch.shape_key, batch.images); });
  ASSERT_TRUE(executor.ok()) << executor.status();
  using Run = std::pair<uint64_t, int>;
  EXPECT_THAT(reported,
              ElementsAre(Run{0, 2}, Run{0, 1}, Run{2, 2}, Run{2, 1}, Run{1, 2}, Run{1, 1}));
  EXPECT_EQ(std::ranges::count(raw->sizes_, models::ImageSize{kSide, 2 * kSide}), 1 + 2 * 2);
  EXPECT_GE((*executor)->peak_activation_bytes(), 2 * 2 * kNumbers * 4);
}

// A model whose passes take long is ready once its own size has run; what it has not run by then it
// runs when it is asked to. Of one that is quick every batch runs.
TEST_F(BatchExecutorTest, TheWarmUpEndsWithItsTime) {
  constexpr models::ImageSize kOwn{kSide, kSide}, kWide{kSide, 2 * kSide}, kNarrow{kSide, 1};
  using Run = std::pair<models::ImageSize, int>;
  using Reported = std::tuple<uint64_t, int, Nanos>;
  struct {
    std::vector<models::ImageSize> further;
    int max_batch_size;
    Nanos per_own_image;
    int loads_together;
    std::vector<Run> runs;
    std::vector<Reported> reported;
  } const cases[] = {
      // Not even a second pass: the first one's time is reported.
      {{}, 16, 5 * kSecond, 1, {{kOwn, 1}}, {{0, 1, 5 * kSecond}}},
      // The largest batch that there is time for, once.
      {{},
       16,
       450 * kMillisecond,
       1,
       {{kOwn, 1}, {kOwn, 7}},
       {{0, 7, 3150 * kMillisecond}, {0, 1, 450 * kMillisecond}}},
      // Of a quarter of the time.
      {{},
       16,
       120 * kMillisecond,
       4,
       {{kOwn, 1}, {kOwn, 7}},
       {{0, 7, 840 * kMillisecond}, {0, 1, 120 * kMillisecond}}},
      // Of the sizes the largest, which has to fit, and the model's own.
      {{kWide, kNarrow}, 2, 3 * kSecond, 1, {{kWide, 1}, {kOwn, 1}}, {{0, 1, 3 * kSecond}}},
      {{kWide},
       1,
       500 * kMillisecond,
       1,
       {{kWide, 1}, {kOwn, 1}, {kOwn, 1}, {kOwn, 1}, {kWide, 1}},
       {{0, 1, 500 * kMillisecond}, {1, 1, kSecond}}},
  };
  for (const auto& [further, max_batch_size, per_own_image, loads_together, runs, reported] :
       cases) {
    FakeClock clock;
    auto model = std::make_unique<SummingModel>(1000, further);
    std::vector<Run> run;
    model->on_run_ = [&, raw = model.get()] {
      const models::ImageSize size = raw->sizes_.back();
      run.emplace_back(size, raw->batches_.back());
      clock.Advance(per_own_image * raw->batches_.back() * size.width / kSide);
    };
    std::vector<Reported> heard;
    const auto executor = BatchExecutor::CreateWithModel(
        std::move(model), {.max_batch_size = max_batch_size, .loads_together = loads_together},
        MakeCpuDevice({}), clock, [&](const BatchSize& batch, Nanos took) {
          heard.emplace_back(batch.shape_key, batch.images, took);
        });
    ASSERT_TRUE(executor.ok()) << executor.status();
    EXPECT_EQ(run, runs);
    EXPECT_EQ(heard, reported);
    // Bounds where nothing was measured.
    const int64_t largest = max_batch_size * kNumbers * (further.empty() ? 1 : 2) * 4;
    EXPECT_GE((*executor)->peak_activation_bytes(), largest);
    EXPECT_THAT((*executor)->device_bytes(), testing::Each(testing::Ge(kNumbers * 4)));
  }
}

TEST_F(BatchExecutorTest, RunsABatchAtItsShape) {
  Load(std::make_unique<SummingModel>(
      1000, std::vector<models::ImageSize>{{kSide, 1}, {kSide, 2 * kSide}}));
  const auto task = [](uint64_t shape_key, int64_t numbers, float value, Outcome& outcome) {
    const std::vector<float> pixels(numbers, value);
    return std::make_unique<InferenceTask>(
        std::make_unique<InferenceRequest>(),
        ReceivedPixels{ScatteredBytes::Copy(
            {reinterpret_cast<const char*>(pixels.data()), pixels.size() * sizeof(float)})},
        BatchSize{.images = 1, .shape_key = shape_key}, 0,
        [&outcome](std::unique_ptr<InferenceTask>, absl::StatusOr<TaskResult> result) {
          outcome.result = std::move(result);
        });
  };
  Outcome wide[2], narrow, own;
  model_->sizes_.clear();
  Run(task(2, 2 * kNumbers, 1, wide[0]), task(2, 2 * kNumbers, 2, wide[1]));
  EXPECT_EQ(observer_.last.shape_key, 2);
  Run(task(1, kNumbers / 2, 3, narrow));
  EXPECT_EQ(observer_.last.shape_key, 1);
  Run(MakeTask({4}, own));
  EXPECT_EQ(wide[0].value(), 2 * kNumbers);
  EXPECT_EQ(wide[1].value(), 2 * 2 * kNumbers);
  EXPECT_EQ(narrow.value(), 3 * kNumbers / 2);
  EXPECT_EQ(own.value(), 4 * kNumbers);
  EXPECT_THAT(model_->sizes_,
              ElementsAre(models::ImageSize{kSide, 2 * kSide}, models::ImageSize{kSide, 1},
                          models::ImageSize{kSide, kSide}));
}

TEST_F(BatchExecutorTest, TheLargestShapeHasToFitTheMemory) {
  const auto create = [](std::vector<models::ImageSize> further) {
    return BatchExecutor::CreateWithModel(
               std::make_unique<SummingModel>(1024, std::move(further)), {.max_batch_size = 1024},
               MakeCpuDevice({.available_memory = [] { return 100 * 1024 * kNumbers * 4; }}),
               SteadyClock(), nullptr)
        .status();
  };
  EXPECT_TRUE(create({}).ok()) << create({});
  EXPECT_EQ(ReasonOf(create({{kSide, 100 * kSide}})), "model.too_large");
}

// So the times of one model are not those of two.
TEST_F(BatchExecutorTest, WarmsUpOnlyWhileItHasTheTurn) {
  Turn turn;
  const auto turn_is_free = [&turn] {
    return turn.Await([] { return true; }, SteadyClock()) != nullptr;
  };
  auto model = std::make_unique<SummingModel>();
  int passes = 0;
  model->on_run_ = [&] {
    ++passes;
    EXPECT_FALSE(turn_is_free());
  };
  auto executor =
      BatchExecutor::CreateWithModel(std::move(model), {.max_batch_size = 3, .warm_up_turn = &turn},
                                     MakeCpuDevice({}), SteadyClock(), nullptr);
  ASSERT_TRUE(executor.ok()) << executor.status();
  EXPECT_EQ(passes, 6);
  EXPECT_TRUE(turn_is_free());
  // A model that cannot be run gives the turn back as well.
  auto broken = std::make_unique<SummingModel>(/*most_images=*/2);
  EXPECT_FALSE(BatchExecutor::CreateWithModel(std::move(broken),
                                              {.max_batch_size = 3, .warm_up_turn = &turn},
                                              MakeCpuDevice({}), SteadyClock(), nullptr)
                   .ok());
  EXPECT_TRUE(turn_is_free());
}

TEST_F(BatchExecutorTest, WhoGivesUpWaitsForNoOthersWarmUp) {
  Turn turn;
  const auto others = turn.Await([] { return false; }, SteadyClock());
  const auto cancelled = std::make_shared<Cancellation>();
  cancelled->Cancel();
  const auto expect_given_up = [](const BatchExecutorOptions& options) {
    auto model = std::make_unique<SummingModel>();
    bool ran = false;
    model->on_run_ = [&] { ran = true; };
    const auto executor = BatchExecutor::CreateWithModel(std::move(model), options,
                                                         MakeCpuDevice({}), SteadyClock(), nullptr);
    EXPECT_EQ(ReasonOf(executor.status()), "model.load_stopped") << executor.status();
    EXPECT_FALSE(ran);
  };
  expect_given_up({.warm_up_turn = &turn, .cancellation = cancelled});
  expect_given_up({.warm_up_turn = &turn, .give_up_at = SteadyClock().Now()});
}

TEST_F(BatchExecutorTest, TimesADoublingOfSizes) {
  auto model = std::make_unique<SummingModel>();
  SummingModel* raw = model.get();
  std::vector<int> reported;
  auto executor = BatchExecutor::CreateWithModel(
      std::move(model), {.max_batch_size = 16}, MakeCpuDevice({}), SteadyClock(),
      [&](const BatchSize& batch, Nanos) { reported.push_back(batch.images); });
  ASSERT_TRUE(executor.ok());
  EXPECT_THAT(reported, ElementsAre(16, 8, 4, 2, 1));
  EXPECT_EQ(raw->batches_.size(), 1 + 16 + 5) << "one, every size, and those that are timed";
}

TEST_F(BatchExecutorTest, WarmsUpAndTimesWhatMayRunOnEachNumberOfThreads) {
  auto model = std::make_unique<SummingModel>();
  SummingModel* raw = model.get();
  const LaneArrangement lanes{.lanes = 4, .threads_per_batch = {1, 2, 4}};
  std::vector<std::pair<int, int>> reported;
  auto executor = BatchExecutor::CreateWithModel(
      std::move(model), {.max_batch_size = 8, .arrangement = lanes},
      MakeCpuDevice({.threads = 4, .lanes = 4, .threads_per_batch = lanes.threads_per_batch}),
      SteadyClock(),
      [&](const BatchSize& batch, Nanos) { reported.emplace_back(batch.threads, batch.images); });
  ASSERT_TRUE(executor.ok());
  EXPECT_THAT(reported, ElementsAre(std::pair(4, 8), std::pair(4, 4), std::pair(4, 2),
                                    std::pair(4, 1), std::pair(2, 4), std::pair(2, 2),
                                    std::pair(2, 1), std::pair(1, 2), std::pair(1, 1)));
  std::set<std::pair<int, int>> ran;
  for (size_t i = 0; i < raw->batches_.size(); ++i) {
    ran.emplace(raw->threads_[i], raw->batches_[i]);
  }
  EXPECT_EQ(ran.size(), 8u + 4 + 2) << "every batch that may come";
}

TEST_F(BatchExecutorTest, ABatchRunsOnItsThreadsInALaneThatHasRoomForIt) {
  auto model = std::make_unique<SummingModel>();
  SummingModel* raw = model.get();
  const LaneArrangement lanes{.lanes = 2, .threads_per_batch = {1, 2}};
  auto executor = BatchExecutor::CreateWithModel(
      std::move(model), {.max_batch_size = 6, .arrangement = lanes},
      MakeCpuDevice({.threads = 2, .lanes = 2, .threads_per_batch = lanes.threads_per_batch}),
      SteadyClock(), nullptr);
  ASSERT_TRUE(executor.ok());
  // {instance, threads, images}: the second instance runs while one thread is another's.
  const int batches[][3] = {{0, 2, 6}, {0, 1, 3}, {1, 1, 3}, {0, 2, 1}};
  for (const auto& [instance, threads, images] : batches) {
    Outcome outcome;
    std::vector<std::unique_ptr<InferenceTask>> batch;
    batch.push_back(MakeTask(std::vector<float>(images, 1), outcome));
    EXPECT_EQ((*executor)->Run(instance, threads, std::move(batch), nullptr), RunOutcome::kWhole);
    EXPECT_EQ(raw->threads_.back(), threads);
    EXPECT_EQ(raw->batches_.back(), images);
    ASSERT_TRUE(outcome.result.has_value() && outcome.result->ok());
    EXPECT_EQ((*outcome.result)->batch_threads, threads);
  }
}

TEST(CpuWarmUpSizesTest, AreFewWhereBatchesAreLarge) {
  EXPECT_THAT(CpuWarmUpSizes(1), ElementsAre(1));
  EXPECT_THAT(CpuWarmUpSizes(4), ElementsAre(4, 3, 2, 1));
  EXPECT_EQ(CpuWarmUpSizes(32).size(), 32);
  const std::vector<int> large = CpuWarmUpSizes(1024);
  EXPECT_EQ(large.front(), 1024);
  EXPECT_EQ(large.back(), 1);
  EXPECT_LT(large.size(), 70);
}

TEST_F(BatchExecutorTest, Row39BatchesThatDoNotFitTheMemoryAreRefusedBeforeTheyAreTried) {
  const auto executor = BatchExecutor::CreateWithModel(
      std::make_unique<SummingModel>(), {.max_batch_size = 1024, .arrangement = {.lanes = 64}},
      MakeCpuDevice({.threads = 2,
                     .lanes = 64,
                     .available_memory = [] { return 64 * 1024 * kNumbers * sizeof(float) - 1; }}),
      SteadyClock(), nullptr);
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(executor.status()), "model.too_large");
  EXPECT_THAT(std::string(executor.status().message()),
              testing::HasSubstr("batches of 1024 in 64 instances need about 0.0 GiB of memory"));
}

TEST_F(BatchExecutorTest, BatchesThatShareTheThreadsAreNoMoreImagesThanOneOnAll) {
  // Lanes with room for 1024, 768, 512 and 256 images, of so many pixels that what a pass holds
  // besides is less than they.
  constexpr int64_t kLonger = 100;
  const LaneArrangement lanes{.lanes = 4, .threads_per_batch = {1, 2, 4}};
  const int64_t image = kLonger * kNumbers * sizeof(float);
  const int64_t inputs = 2'560 * image, four_full_inputs = 4'096 * image;
  for (const int64_t available : {inputs - 1, four_full_inputs - 1}) {
    const auto executor = BatchExecutor::CreateWithModel(
        std::make_unique<SummingModel>(2'000,
                                       std::vector<models::ImageSize>{{kSide, kLonger * kSide}}),
        {.max_batch_size = 1024, .arrangement = lanes},
        MakeCpuDevice({.threads = 4,
                       .lanes = 4,
                       .threads_per_batch = lanes.threads_per_batch,
                       .available_memory = [&] { return available; }}),
        SteadyClock(), nullptr);
    EXPECT_EQ(executor.ok(), available >= inputs) << executor.status();
  }
}

TEST_F(BatchExecutorTest, TheLargestBatchIsCountedWhereItsPartsAreRoundedDown) {
  // Seven images on all threads, or four lanes of one. Each holds 3 MiB in a pass, and next to
  // nothing as input.
  class HungryModel final : public OneLogitModel {
   public:
    std::vector<at::Tensor> RunBatch(const at::Tensor& pixels,
                                     models::ForwardContext&) const override {
      return {at::zeros({pixels.size(0), 3 << 18}).sum(1, /*keepdim=*/true)};
    }
  };
  const LaneArrangement lanes{.lanes = 4, .threads_per_batch = {1, 2, 4}};
  for (const int64_t mebibytes : {6 * 3, 8 * 3}) {
    const auto executor = BatchExecutor::CreateWithModel(
        std::make_unique<HungryModel>(), {.max_batch_size = 7, .arrangement = lanes},
        MakeCpuDevice({.threads = 4,
                       .lanes = 4,
                       .threads_per_batch = lanes.threads_per_batch,
                       .available_memory = [&] { return mebibytes << 20; }}),
        SteadyClock(), nullptr);
    EXPECT_EQ(executor.ok(), mebibytes == 8 * 3) << executor.status();
  }
}

TEST_F(BatchExecutorTest, ALoadThatIsNotWantedAnyMoreEndsWithinAPass) {
  auto model = std::make_unique<SummingModel>();
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel();
  const auto executor = BatchExecutor::CreateWithModel(
      std::move(model), {.max_batch_size = 8, .cancellation = cancellation}, MakeCpuDevice({}),
      SteadyClock(), nullptr);
  EXPECT_EQ(ReasonOf(executor.status()), "model.load_stopped");
}

TEST_F(BatchExecutorTest, Row61AModelWhoseAnswerToAPlainPictureIsNotFiniteIsNotReady) {
  for (const double factor : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    auto model = std::make_unique<SummingModel>();
    model->factor_ = factor;
    const auto cannot = BatchExecutor::CreateWithModel(std::move(model), {.max_batch_size = 8},
                                                       MakeCpuDevice({}), SteadyClock(), nullptr);
    EXPECT_EQ(cannot.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(cannot.status()), "model.self_test_failed");
    EXPECT_THAT(std::string(cannot.status().message()),
                testing::HasSubstr("NaN or an infinity for a plain picture of 2x2"));
  }
}

TEST_F(BatchExecutorTest, Row61EverySizeIsTested) {
  auto model = std::make_unique<SummingModel>(
      1000, std::vector<models::ImageSize>{{kSide, 2 * kSide}, {kSide, 3 * kSide}});
  SummingModel* const raw = model.get();
  model->on_run_ = [raw] {
    raw->factor_ = raw->sizes_.back().width == 2 * kSide ? std::nan("") : 1;
  };
  const auto cannot = BatchExecutor::CreateWithModel(std::move(model), {}, MakeCpuDevice({}),
                                                     SteadyClock(), nullptr);
  EXPECT_EQ(ReasonOf(cannot.status()), "model.self_test_failed");
  EXPECT_THAT(std::string(cannot.status().message()), testing::HasSubstr("of 2x4:"));
}

TEST_F(BatchExecutorTest, TheWarmUpHoldsWhatABatchMayHold) {
  Load(std::make_unique<SummingModel>());
  EXPECT_THAT(model_->fullest_, testing::Each(true));
  model_->fullest_.clear();
  Outcome one;
  Run(MakeTask({1}, one));
  EXPECT_THAT(model_->fullest_, ElementsAre(false));
}

TEST_F(BatchExecutorTest, GivesEveryTaskItsOwnRows) {
  Load(std::make_unique<SummingModel>());
  Outcome one, two, three;
  Run(MakeTask({1}, one), MakeTask({2, 3}, two), MakeTask({4}, three));
  EXPECT_THAT(model_->batches_, ElementsAre(4));
  EXPECT_EQ(one.value(), 1 * kNumbers);
  EXPECT_EQ(two.value(0), 2 * kNumbers);
  EXPECT_EQ(two.value(1), 3 * kNumbers);
  EXPECT_EQ(three.value(), 4 * kNumbers);
  EXPECT_THAT((*two.result)->outputs[0].shape, ElementsAre(2, 1));
  EXPECT_EQ((*two.result)->batch_size, 4);
  EXPECT_GE((*two.result)->batch_peak_bytes, 4 * kNumbers * 4);
}

TEST_F(BatchExecutorTest, Row42OneTaskThatMakesTheModelFailFailsAlone) {
  Load(std::make_unique<SummingModel>());
  Outcome good[5], bad;
  Run(MakeTask({1}, good[0]), MakeTask({2}, good[1]), MakeTask({kPoison}, bad),
      MakeTask({3}, good[2]), MakeTask({4}, good[3]), MakeTask({5}, good[4]));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(good[i].calls, 1);
    EXPECT_EQ(good[i].value(), (i + 1) * kNumbers);
  }
  EXPECT_EQ(bad.calls, 1);
  EXPECT_EQ(bad.result->status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ReasonOf(bad.result->status()), "executor.failed");
  EXPECT_THAT(std::string(bad.result->status().message()),
              testing::Not(testing::HasSubstr("passwd")));
}

TEST_F(BatchExecutorTest, Row40OutOfMemorySplitsTheBatch) {
  Load(std::make_unique<SummingModel>(), 4);
  Outcome outcome[4];
  // The warm-up has run with room for all: from here on there is room for two images.
  auto small = std::make_unique<SummingModel>(2);
  model_ = small.get();
  auto executor = BatchExecutor::CreateWithModel(std::move(small), {.max_batch_size = 2},
                                                 MakeCpuDevice({}), SteadyClock(), nullptr);
  ASSERT_TRUE(executor.ok());
  model_->batches_.clear();
  Outcome one, large;
  std::vector<std::unique_ptr<InferenceTask>> batch;
  batch.push_back(MakeTask({1}, one));
  batch.push_back(MakeTask({kTooLarge}, large));
  (*executor)->Run(0, 1, std::move(batch), nullptr);
  EXPECT_THAT(model_->batches_, ElementsAre(2, 1, 1));
  EXPECT_EQ(one.value(), kNumbers);
  EXPECT_EQ(large.result->status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(BatchExecutorTest, AModelThatCannotRunItsLargestBatchIsNotReady) {
  auto executor =
      BatchExecutor::CreateWithModel(std::make_unique<SummingModel>(2), {.max_batch_size = 4},
                                     MakeCpuDevice({}), SteadyClock(), nullptr);
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kUnavailable);
}

// Row 43, too.
TEST_F(BatchExecutorTest, Row12AnOutputThatIsNotFiniteFailsItsOwnRowOnly) {
  Load(std::make_unique<SummingModel>());
  Outcome good, bad;
  Run(MakeTask({std::numeric_limits<float>::infinity()}, bad), MakeTask({1}, good));
  EXPECT_EQ(good.value(), kNumbers);
  EXPECT_EQ(ReasonOf(bad.result->status()), "executor.non_finite_output");
}

TEST_F(BatchExecutorTest, Row11WhatComesOfInfinitiesThatWereLetInIsTheAnswer) {
  Load(std::make_unique<SummingModel>());
  Outcome good, bad;
  auto task = MakeTask({std::numeric_limits<float>::infinity()}, bad);
  task->request().non_finite_input = true;
  Run(std::move(task), MakeTask({1}, good));
  EXPECT_EQ(good.value(), kNumbers);
  EXPECT_EQ(bad.value(), std::numeric_limits<float>::infinity());
  EXPECT_EQ(observer_.last.non_finite, 0);
}

TEST_F(BatchExecutorTest, StopsWhenEveryCallerHasGone) {
  Load(std::make_unique<SummingModel>());
  auto gone = std::make_shared<Cancellation>();
  gone->Cancel();
  Outcome one, two;
  Run(MakeTask({1}, one, gone), MakeTask({2}, two, gone));
  EXPECT_EQ(one.result->status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(two.result->status().code(), absl::StatusCode::kCancelled);
  Outcome stays, left;
  Run(MakeTask({1}, left, gone), MakeTask({2}, stays));
  EXPECT_EQ(stays.value(), 2 * kNumbers);
}

TEST_F(BatchExecutorTest, TellsWholeRunsFromThoseThatWereStoppedOrSplit) {
  Load(std::make_unique<SummingModel>());
  auto gone = std::make_shared<Cancellation>();
  gone->Cancel();
  Outcome one, two;
  EXPECT_EQ(Run(MakeTask({1}, one), MakeTask({2}, two)), RunOutcome::kWhole);
  EXPECT_EQ(Run(MakeTask({1}, one), MakeTask({2}, two, gone)), RunOutcome::kWhole);
  EXPECT_EQ(Run(MakeTask({1}, one, gone), MakeTask({2}, two, gone)), RunOutcome::kStopped);
  EXPECT_EQ(Run(MakeTask({1}, one), MakeTask({kPoison}, two)), RunOutcome::kBroken);
  EXPECT_EQ(Run(MakeTask({kPoison}, one)), RunOutcome::kBroken);
}

TEST_F(BatchExecutorTest, NormalisesBytesOfDecodedImages) {
  Load(std::make_unique<SummingModel>());
  const models::Preprocessing defaults;
  std::vector<uint8_t> rgb;
  for (int i = 0; i < kSide * kSide; ++i) rgb.insert(rgb.end(), {255, 0, 51});
  double expected = 0;
  for (int channel = 0; channel < 3; ++channel) {
    const double pixel = std::array{1.0, 0.0, 0.2}[channel];
    expected += kSide * kSide * (pixel - defaults.mean[channel]) / defaults.std[channel];
  }
  Outcome decoded, received;
  auto make = [](PixelSource pixels, Outcome& outcome) {
    return std::make_unique<InferenceTask>(
        std::make_unique<InferenceRequest>(), std::move(pixels), BatchSize{.images = 1}, 0,
        [&outcome](std::unique_ptr<InferenceTask>, absl::StatusOr<TaskResult> result) {
          outcome.result = std::move(result);
        });
  };
  const auto owner = std::make_shared<std::vector<uint8_t>>(rgb);
  const auto bytes = std::as_bytes(std::span(*owner));
  // Slices that cut a pixel in two.
  ScatteredBytes scattered({bytes.first(4), bytes.subspan(4, 1), bytes.subspan(5)}, owner);
  const ImageTransform whole = ImageTransform::Identity(kSide, kSide);
  Run(make(DecodedPixels{{{.rgb = rgb, .transform = whole}}}, decoded),
      make(ReceivedPixels{scattered, /*normalised=*/false}, received));
  EXPECT_NEAR(decoded.value(), expected, 1e-4);
  EXPECT_EQ(decoded.value(), received.value());
}

// A picture that does not fill the model's input: what it leaves free is zero, whatever the batch
// before left there, and the pass knows where it ends.
TEST_F(BatchExecutorTest, FillsUpWhatAPictureLeavesFree) {
  Load(std::make_unique<SummingModel>());
  Outcome before, after;
  Run(MakeTask({5}, before));
  const models::Preprocessing defaults;
  const int64_t height = kSide - 1, width = 1;
  double expected = 0;
  for (int channel = 0; channel < 3; ++channel) {
    expected +=
        static_cast<double>(height * width) * (1 - defaults.mean[channel]) / defaults.std[channel];
  }
  ResizedImage image{.rgb = std::vector<uint8_t>(3 * height * width, 255)};
  image.transform = ImageTransform::Identity(height, width);
  Run(std::make_unique<InferenceTask>(
          std::make_unique<InferenceRequest>(), DecodedPixels{{image}}, BatchSize{}, 0,
          [&after](std::unique_ptr<InferenceTask>, absl::StatusOr<TaskResult> result) {
            after.result = std::move(result);
          }),
      MakeTask({5}, before));
  EXPECT_NEAR(after.value(), expected, 1e-4);
  EXPECT_EQ(before.value(), 5 * kNumbers);
  EXPECT_EQ(model_->contents_, (std::vector<models::ImageSize>{{height, width}, {kSide, kSide}}));
  EXPECT_DOUBLE_EQ(observer_.last.padding,
                   (1 - static_cast<double>(height * width) / (kSide * kSide)) / 2);
}

// What is left for an image by itself is not done on the lane.
TEST_F(BatchExecutorTest, LeavesItToTheTaskToFinish) {
  auto model = std::make_unique<SummingModel>();
  model->finishes();
  Load(std::move(model));
  Outcome one, two;
  Run(MakeTask({1, 2}, one), MakeTask({3}, two));
  EXPECT_EQ(model_->finished_, 0);
  ASSERT_TRUE(one.result->ok() && two.result->ok());
  EXPECT_THAT((*one.result)->outputs, testing::IsEmpty());
  absl::StatusOr<TaskOutputs> outputs = std::move((*one.result)->finish)();
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(model_->finished_, 2);
  const auto* sums = reinterpret_cast<const float*>((*outputs)[0].data.data());
  EXPECT_EQ(sums[0], -kNumbers);
  EXPECT_EQ(sums[1], -2 * kNumbers);
  outputs = std::move((*two.result)->finish)();
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ(*reinterpret_cast<const float*>((*outputs)[0].data.data()), -3 * kNumbers);
}

// docs/faults.md, row 57.
TEST_F(BatchExecutorTest, SizesThatHoldTooMuchAreNotRun) {
  // Its weights are 42 bytes, and a pass holds little more than its input.
  const auto load = [](int64_t most) {
    return BatchExecutor::CreateWithModel(
        std::make_unique<SummingModel>(1000,
                                       std::vector<models::ImageSize>{{4 * kSide, 4 * kSide}}),
        {.max_batch_size = 2, .max_device_bytes = most}, MakeCpuDevice({}), SteadyClock(), nullptr);
  };
  const int64_t larger = 42 + 2 * 16 * kNumbers * int64_t{sizeof(float)};
  const auto executor = load(larger);
  ASSERT_TRUE(executor.ok()) << executor.status();
  EXPECT_LE((*executor)->device_bytes()[0], larger);
  EXPECT_GE((*executor)->device_bytes()[0], 42 + 2 * kNumbers * int64_t{sizeof(float)});
  EXPECT_GT((*executor)->device_bytes()[1], larger);
  EXPECT_LT((*executor)->peak_activation_bytes(), larger / 2);
  const absl::Status none = load(42).status();
  EXPECT_EQ(ReasonOf(none), "model.too_large");
  EXPECT_THAT(std::string(none.message()), testing::HasSubstr("--max-device-bytes"));
}

TEST(MemoryLedgerTest, CountsLiveAndPeakBytesOfItsThread) {
  at::Tensor before = at::empty({1000}, at::kFloat);
  kernels::MemoryLedger ledger;
  {
    at::Tensor a = at::empty({100}, at::kFloat);
    EXPECT_EQ(ledger.live_bytes(), 400);
    { at::Tensor b = at::empty({50}, at::kFloat); }
    EXPECT_EQ(ledger.live_bytes(), 400);
  }
  before.reset();
  EXPECT_EQ(ledger.live_bytes(), 0);
  EXPECT_EQ(ledger.peak_bytes(), 600);
}

}  // namespace
}  // namespace fovea
