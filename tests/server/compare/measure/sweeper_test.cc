// Sweeps of small models with random weights.
#include "server/compare/measure/sweeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "server/compare/experiment_line.h"
#include "server/compare/held_lane.h"
#include "server/compare/measure/comparer.h"
#include "server/compare/measure/power_law.h"
#include "server/core/mutex.h"
#include "tests/server/compare/late_clock.h"
#include "tests/server/compare/served_models.h"

namespace fovea {
namespace {

using testing::HasSubstr;

MATCHER_P2(Fails, code, reason, "") {
  *result_listener << arg.status();
  return arg.status().code() == code && ReasonOf(arg.status()) == reason;
}

class SweeperTest : public ServedModelsTest {
 protected:
  SweeperTest() { environment_clock_ = late_clock_; }
  ~SweeperTest() override {
    line_.reset();
    sweeper_.reset();
    comparer_.reset();
  }

  Sweeper& sweeper(const SweeperOptions& options = {}) {
    if (sweeper_ == nullptr) {
      lane_ = *HeldLane::Create({.device_threads = device_threads_}, Environment().scheduler,
                                Environment().clock);
      line_ = *ExperimentLine::Create({.name = "compare", .what = "comparisons and sweeps"});
      comparer_ =
          std::make_unique<Comparer>(ComparerOptions(), models_, Environment(), *lane_, *line_);
      sweeper_ = std::make_unique<Sweeper>(options, models_, Environment(), *lane_, *line_);
    }
    return *sweeper_;
  }
  static SweepRequest Request(SweepAxis axis, std::vector<std::string> values,
                              std::vector<std::string> attentions = {""}) {
    SweepRequest request{.axis = axis, .values = std::move(values), .rounds = 3};
    for (std::string& attention : attentions) {
      request.variants.push_back({.model_name = "classifier", .attention = std::move(attention)});
    }
    return request;
  }
  absl::StatusOr<Sweep> Run(SweepRequest request) {
    std::promise<absl::StatusOr<Sweep>> promise;
    sweeper().Sweep(
        std::move(request), cancellation_,
        [this](const ComparisonProgress& progress) {
          if (on_progress_) on_progress_(progress);
        },
        [&](absl::StatusOr<Sweep> sweep) { promise.set_value(std::move(sweep)); });
    return promise.get_future().get();
  }

  static constexpr char kClassifier[] =
      "backbone: \"vit_demo_patch8_64\" num_classes: 7 max_batch_size: 1";

  const std::shared_ptr<LateClock> late_clock_ = std::make_shared<LateClock>();
  std::function<void(const ComparisonProgress&)> on_progress_;
  std::unique_ptr<HeldLane> lane_;
  std::unique_ptr<ExperimentLine> line_;
  std::unique_ptr<Comparer> comparer_;
  std::unique_ptr<Sweeper> sweeper_;
};

TEST_F(SweeperTest, Row88AnUnloadWaitsForNoSweep) {
  Serve("classifier", kClassifier);
  bool removed = false;
  on_progress_ = [&](const ComparisonProgress&) {
    if (std::exchange(removed, true)) return;
    EXPECT_TRUE(models_.Remove("classifier")) << "the sweep holds it";
  };
  const auto sweep = Run(Request(SweepAxis::kResolution, {"64", "96"}));
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  for (const SweptPoint& point : sweep->curves[0].points) EXPECT_EQ(point.failure, "");
}

// Tokens grow with pixels, dense attention's work with their square. At these sizes the projections
// weigh, too: what is to be seen is that attention grows faster than they do, and memory as tokens.
TEST_F(SweeperTest, OverResolutionAttentionGrowsFasterThanTheRest) {
  Serve("classifier", kClassifier);
  SweepRequest request =
      Request(SweepAxis::kResolution, {"64", "96", "128", "192"}, {"", "knn:k=3"});
  request.rounds = 20;
  const auto sweep = Run(request);
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->rounds, 20);
  EXPECT_EQ(sweep->device, "CPU");
  EXPECT_EQ(sweep->threads, 1);
  EXPECT_THAT(sweep->places, testing::ElementsAre(4096, 9216, 16384, 36864));
  ASSERT_EQ(sweep->curves.size(), 2u);
  const SweptCurve& dense = sweep->curves[0];
  EXPECT_EQ(dense.weights_of_attention, "");
  EXPECT_EQ(sweep->curves[1].weights_of_attention, dense.attention);
  EXPECT_EQ(sweep->curves[1].points[0].attention, "knn:k=3");
  ASSERT_EQ(dense.points.size(), 4u);
  for (const SweptPoint& point : dense.points) {
    EXPECT_EQ(point.failure, "");
    EXPECT_GT(point.compute_ms.median, 0);
    ASSERT_TRUE(point.attention_ms.has_value());
    EXPECT_GT(point.attention_ms->median, 0);
    EXPECT_TRUE(point.compute_estimate_ms.has_value());
    EXPECT_NEAR(point.images_per_second, 1e3 / point.compute_ms.median, 1e-6);
    EXPECT_GT(point.weight_bytes, 0);
  }
  // 64 patches and the class token, and 576 of them: as many projections as tokens, and the
  // square of them for the logits and the values.
  const double growth = static_cast<double>(dense.points[3].multiply_adds) /
                        static_cast<double>(dense.points[0].multiply_adds);
  EXPECT_GT(growth, 577.0 / 65);
  EXPECT_LT(growth, 577.0 / 65 * 577.0 / 65);
  ASSERT_TRUE(dense.attention_exponent && dense.compute_exponent && dense.peak_exponent);
  EXPECT_EQ(dense.compute_exponent->points, 4);
  EXPECT_GT(dense.attention_exponent->exponent.value, dense.compute_exponent->exponent.value);
  EXPECT_LT(dense.peak_exponent->exponent.value, 1.25) << "no logits are held";
  EXPECT_GT(dense.peak_exponent->exponent.value, 0.5) << "but for threads' scratch, it is tokens";
  EXPECT_EQ(dense.peak_exponent->exponent.lower, dense.peak_exponent->exponent.value);
  // Exponents are those of the medians that are told.
  std::vector<MeasuredPoint> compute, attention, peak;
  for (size_t i = 0; i < dense.points.size(); ++i) {
    compute.push_back({sweep->places[i], {dense.points[i].compute_ms.median}});
    attention.push_back({sweep->places[i], {dense.points[i].attention_ms->median}});
    peak.push_back({sweep->places[i], {static_cast<double>(dense.points[i].peak_bytes)}});
  }
  const std::pair<const std::vector<MeasuredPoint>&, const FittedExponent&> fits[] = {
      {compute, *dense.compute_exponent},
      {attention, *dense.attention_exponent},
      {peak, *dense.peak_exponent}};
  for (const auto& [points, fitted] : fits) {
    const PowerLaw law = *FitPowerLaw(points);
    EXPECT_NEAR(fitted.exponent.value, law.exponent, 1e-9);
    EXPECT_NEAR(fitted.worst_ratio, law.worst_ratio, 1e-9);
    EXPECT_LE(fitted.exponent.lower, fitted.exponent.upper);
    EXPECT_TRUE(std::isfinite(fitted.exponent.upper)) << "of twenty rounds";
  }
}

TEST_F(SweeperTest, EachAxisChangesWhatItSays) {
  Serve("classifier", kClassifier);
  const auto batches = Run(Request(SweepAxis::kBatch, {"1", "4", "8"}));
  ASSERT_TRUE(batches.ok()) << batches.status();
  const std::vector<SweptPoint>& batch = batches->curves[0].points;
  EXPECT_GT(batch[2].peak_bytes, 4 * batch[0].peak_bytes);
  EXPECT_EQ(batch[2].multiply_adds, batch[0].multiply_adds) << "of one image";
  EXPECT_NEAR(batch[2].images_per_second, 8e3 / batch[2].compute_ms.median, 1e-6);
  EXPECT_FALSE(batch[0].compute_estimate_ms.has_value()) << "of three rounds";

  const auto counts = Run(Request(SweepAxis::kK, {"1", "16", "65"}));
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->curves[0].attention, "knn");
  EXPECT_EQ(counts->curves[0].points[1].attention, "knn:k=16");
  EXPECT_TRUE(counts->curves[0].attention_exponent.has_value());
  const auto shares = Run(Request(SweepAxis::kK, {"0.25", "0.5"}));
  ASSERT_TRUE(shares.ok()) << shares.status();
  EXPECT_EQ(shares->curves[0].points[1].attention, "knn:k=0.5");
  EXPECT_FALSE(shares->curves[0].compute_exponent.has_value()) << "of two points";

  const auto temperatures = Run(Request(SweepAxis::kTemperature, {"0.5", "2", "4"}, {"dense"}));
  ASSERT_TRUE(temperatures.ok()) << temperatures.status();
  EXPECT_EQ(temperatures->curves[0].points[0].attention, "dense:temperature=0.5");
  EXPECT_EQ(temperatures->curves[0].points[1].attention, "dense:temperature=2");
  EXPECT_EQ(temperatures->curves[0].points[2].attention, "dense:temperature=4");
  EXPECT_FALSE(temperatures->curves[0].compute_exponent.has_value());

  const auto heads = Run(Request(SweepAxis::kHeads, {"1", "2"}, {"cska"}));
  ASSERT_TRUE(heads.ok()) << heads.status();
  EXPECT_EQ(heads->curves[0].points[0].failure, "");
  EXPECT_THAT(heads->curves[0].points[0].attention, HasSubstr("heads=1"));
  EXPECT_THAT(heads->curves[0].points[1].attention, HasSubstr("heads=2"));
  // Each head has a convolution to logits of its own.
  EXPECT_GT(heads->curves[0].points[1].weight_bytes, heads->curves[0].points[0].weight_bytes);

  const auto precisions = Run(Request(SweepAxis::kPrecision, {"FP32", "BF16", "INT8"}));
  ASSERT_TRUE(precisions.ok()) << precisions.status();
  const std::vector<SweptPoint>& precision = precisions->curves[0].points;
  for (const SweptPoint& point : precision) EXPECT_EQ(point.failure, "");
  EXPECT_LT(precision[1].weight_bytes, precision[0].weight_bytes);
  EXPECT_LT(precision[2].weight_bytes, precision[1].weight_bytes);
  EXPECT_TRUE(precisions->places.empty());
}

// INT8 runs on the CPU wherever the model runs: beside a GPU's its times would say nothing.
TEST_F(SweeperTest, PointsOfAnotherDeviceAreRefused) {
  UseGpu();
  Serve("classifier", kClassifier);
  const auto sweep = Run(Request(SweepAxis::kPrecision, {"FP32", "INT8"}));
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->device, "GPU");
  const std::vector<SweptPoint>& points = sweep->curves[0].points;
  EXPECT_EQ(points[0].failure, "");
  EXPECT_THAT(points[1].failure, HasSubstr("it runs on CPU and those before it on GPU"));
}

TEST_F(SweeperTest, AGpuThatIsLostWhileAPointLoadsIsToldOf) {
  UseGpu();
  Serve("classifier", kClassifier);
  lose_gpu_();
  const auto sweep = Run(Request(SweepAxis::kPrecision, {"FP32", "BF16"}));
  EXPECT_FALSE(sweep.ok() && sweep->curves[0].points[0].failure.empty());
  EXPECT_GT(lost_gpus_, 0);
}

TEST_F(SweeperTest, AGpuThatIsLostBetweenRoundsIsToldOf) {
  UseGpu();
  Serve("classifier", kClassifier);
  on_progress_ = [this](const ComparisonProgress& progress) {
    if (progress.phase == ComparisonProgress::Phase::kMeasuring && progress.done == 1) lose_gpu_();
  };
  EXPECT_THAT(Run(Request(SweepAxis::kPrecision, {"FP32", "BF16"})),
              Fails(absl::StatusCode::kUnavailable, "device.lost"));
  EXPECT_GT(lost_gpus_, 0);
}

// Notes on how many threads each thread that asks for the time would run an operator.
class ThreadsClock final : public Clock {
 public:
  Nanos Now() const override {
    const int threads = omp_get_max_threads();
    MutexLock lock(mutex_);
    if (std::this_thread::get_id() != left_out_) last_ = threads;
    return SteadyClock().Now();
  }
  void WaitUntil(CondVar& condition, Mutex& mutex, Nanos until) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    SteadyClock().WaitUntil(condition, mutex, until);
  }
  // Of the calling thread nothing is noted.
  void LeaveOut() {
    MutexLock lock(mutex_);
    left_out_ = std::this_thread::get_id();
  }
  // On the thread that was the last to ask.
  int last() const {
    MutexLock lock(mutex_);
    return last_;
  }

 private:
  mutable Mutex mutex_;
  std::thread::id left_out_ ABSL_GUARDED_BY(mutex_);
  mutable int last_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(SweeperTest, RunsOnAsManyThreadsAsTheValueSays) {
  const auto clock = std::make_shared<ThreadsClock>();
  environment_clock_ = clock;
  UseThreads(2);
  Serve("classifier", kClassifier);
  // The line's thread asks, too; it only waits for the one that runs the passes.
  on_progress_ = [&](const ComparisonProgress&) { clock->LeaveOut(); };
  for (const int threads : {2, 1, 2}) {
    const auto sweep = Run(Request(SweepAxis::kThreads, {std::to_string(threads)}));
    ASSERT_TRUE(sweep.ok()) << sweep.status();
    EXPECT_EQ(sweep->curves[0].points[0].failure, "");
    EXPECT_EQ(clock->last(), threads);
  }
  const auto both = Run(Request(SweepAxis::kThreads, {"1", "2"}));
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_THAT(both->places, testing::ElementsAre(1, 2));
}

TEST_F(SweeperTest, DetectorsKeepThePicturesShapeAtEachSize) {
  Serve("classifier",
        "backbone: \"linglo_b0\" task: DETECTION num_classes: 3 max_batch_size: 1 "
        "head { name: \"retinanet\" score_threshold: 0 detections_per_image: 20 } "
        "image_height: 64 image_width: 96 preprocessing { shorter_side: 64 longer_side: 96 }");
  SweepRequest request = Request(SweepAxis::kResolution, {"64", "128"});
  request.image = Picture(48, 96, 1);
  const auto sweep = Run(request);
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->curves[0].points[0].failure, "");
  EXPECT_GT(sweep->curves[0].points[1].multiply_adds, 3 * sweep->curves[0].points[0].multiply_adds);
}

// Row 87.
TEST_F(SweeperTest, PointsThatCannotBeSayWhyAndTheOthersGoOn) {
  Serve("classifier", kClassifier);
  const auto sweep = Run(Request(SweepAxis::kK, {"3", "66", "9"}, {"knn", "shifted_window/knn"}));
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  const SweptCurve& knn = sweep->curves[0];
  EXPECT_EQ(knn.points[0].failure, "");
  EXPECT_THAT(knn.points[1].failure, HasSubstr("65"));
  EXPECT_EQ(knn.points[1].compute_ms.median, 0);
  EXPECT_EQ(knn.points[2].failure, "");
  EXPECT_FALSE(knn.compute_exponent.has_value()) << "two points are left";
  for (const SweptPoint& point : sweep->curves[1].points) EXPECT_NE(point.failure, "");
  // None at all is an answer, too.
  const auto none = Run(Request(SweepAxis::kResolution, {"64"}, {"no such"}));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->rounds, 0);
  EXPECT_NE(none->curves[0].points[0].failure, "");
}

// Row 87.
TEST_F(SweeperTest, RefusesWhatIsNoSweep) {
  Serve("classifier", kClassifier);
  const auto bad = Fails(absl::StatusCode::kInvalidArgument, "sweep.bad_request");
  const SweepRequest good = Request(SweepAxis::kBatch, {"1"});
  SweepRequest request = good;
  request.variants.clear();
  EXPECT_THAT(Run(request), bad);
  request.variants.assign(9, good.variants[0]);
  EXPECT_THAT(Run(request), bad);
  request = good;
  request.values.clear();
  EXPECT_THAT(Run(request), bad);
  request.values.assign(33, "1");
  EXPECT_THAT(Run(request), bad);
  request.values.assign(32, "1");
  request.variants.assign(3, good.variants[0]);
  EXPECT_THAT(Run(request), bad) << "96 points";
  for (int SweepRequest::*number : {&SweepRequest::rounds, &SweepRequest::batch_size}) {
    for (const int value : {0, -1, 1'000'000}) {
      request = good;
      request.*number = value;
      EXPECT_THAT(Run(request), bad);
    }
  }
  request = good;
  request.threads = 2;
  EXPECT_THAT(Run(request), bad);
  EXPECT_THAT(Run(Request(SweepAxis::kBatch, {"many"})),
              Fails(absl::StatusCode::kInvalidArgument, "sweep.bad_value"));
  EXPECT_THAT(Run(Request(SweepAxis::kK, {"3"}, {"knn:k=4"})),
              Fails(absl::StatusCode::kInvalidArgument, "sweep.bad_attention"));
  request = good;
  request.variants[0].model_name = "nobody";
  EXPECT_THAT(Run(request), Fails(absl::StatusCode::kNotFound, "model.not_found"));
  request = good;
  request.image = "no picture";
  EXPECT_EQ(Run(request).status().code(), absl::StatusCode::kInvalidArgument);
}

// Row 88.
TEST_F(SweeperTest, PointsHoldNoMoreThanAllMay) {
  Serve("classifier", kClassifier);
  sweeper({.max_bytes = 8 << 20});
  const auto sweep = Run(Request(SweepAxis::kK, {"1", "2", "3", "4", "5", "6"}));
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->curves[0].points.front().failure, "");
  EXPECT_THAT(sweep->curves[0].points.back().failure, HasSubstr("--experiment-memory"));
  SweepRequest large = Request(SweepAxis::kResolution, {"64", "2048"});
  large.batch_size = 8;
  const auto pixels = Run(large);
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_THAT(pixels->curves[0].points[1].failure, HasSubstr("pixels"));
}

// Row 88.
TEST_F(SweeperTest, RoomForPixelsCountsAmongWhatPointsHold) {
  Serve("classifier", kClassifier);
  const auto single = Run(Request(SweepAxis::kK, {"1"}));
  ASSERT_TRUE(single.ok()) << single.status();
  const SweptPoint& point = single->curves[0].points[0];
  ASSERT_EQ(point.failure, "");
  SweepRequest request = Request(SweepAxis::kK, {"1", "2", "3", "4"});
  request.batch_size = 64;
  // The weights of four and a batch of one of them, and half of the room that three more keep.
  const int64_t room = int64_t{64} * 3 * 64 * 64 * 4;
  sweeper_.reset();
  sweeper({.max_bytes = 4 * point.weight_bytes + 64 * point.peak_bytes + 3 * room / 2});
  const auto sweep = Run(request);
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->curves[0].points[0].failure, "");
  EXPECT_THAT(sweep->curves[0].points[3].failure, HasSubstr("--experiment-memory"));
}

// Row 88.
TEST_F(SweeperTest, WhatModelsWouldWaitForTooLongIsLeftOut) {
  Serve("classifier", kClassifier);
  sweeper({.max_pass = 1});
  const auto slow = Run(Request(SweepAxis::kBatch, {"1", "2"}));
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_THAT(slow->curves[0].points[0].failure, HasSubstr("models would wait"));
}

// Row 88.
TEST_F(SweeperTest, WhatIsNotLoadedInTimeIsLeftOut) {
  Serve("classifier", kClassifier);
  sweeper({.max_load = 1});
  const auto slow = Run(Request(SweepAxis::kBatch, {"1"}));
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_THAT(slow->curves[0].points[0].failure, HasSubstr("not loaded"));
}

// Row 88.
TEST_F(SweeperTest, EndsWhenItsCallerGoes) {
  Serve("classifier", kClassifier);
  on_progress_ = [this](const ComparisonProgress& progress) {
    if (progress.phase == ComparisonProgress::Phase::kMeasuring && progress.done == 3) {
      cancellation_->Cancel();
    }
  };
  SweepRequest request = Request(SweepAxis::kBatch, {"1", "2"});
  request.rounds = 1000;
  EXPECT_THAT(Run(request), Fails(absl::StatusCode::kCancelled, "compare.cancelled"));
}

TEST_F(SweeperTest, TimeEndsTheRounds) {
  Serve("classifier", kClassifier);
  SweepRequest request = Request(SweepAxis::kBatch, {"1", "2"});
  request.rounds = 1000;
  request.max_time = 1;
  const auto sweep = Run(request);
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->rounds, 1);
  EXPECT_GT(sweep->curves[0].points[1].compute_ms.median, 0);
}

// Row 88: an hour ends any sweep's rounds.
TEST_F(SweeperTest, AnHourEndsTheRoundsOfAnySweep) {
  Serve("classifier", kClassifier);
  on_progress_ = [this](const ComparisonProgress& progress) {
    if (progress.phase == ComparisonProgress::Phase::kMeasuring && progress.done == 1) {
      late_clock_->Add(limits::kMaxComparisonSeconds * kSecond);
    }
  };
  SweepRequest request = Request(SweepAxis::kBatch, {"1", "2"});
  request.rounds = 1000;
  request.max_time = kNever / 4;
  const auto sweep = Run(request);
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->rounds, 2) << "the one that had begun is the last";
}

// Row 88.
TEST_F(SweeperTest, NothingIsLoadedForASweepWhoseTimeIsOver) {
  Serve("classifier", kClassifier);
  sweeper({.max_time = 1});
  const auto late = Run(Request(SweepAxis::kBatch, {"1", "2"}));
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(late->rounds, 0);
  EXPECT_THAT(late->curves[0].points[0].failure, HasSubstr("before it was loaded"));
}

// Row 88.
TEST_F(SweeperTest, NothingIsLoadedToBeCountedAfterAnHour) {
  Serve("classifier", kClassifier);
  on_progress_ = [this](const ComparisonProgress& progress) {
    if (progress.phase != ComparisonProgress::Phase::kAnalysing || progress.done != 1) return;
    late_clock_->Add(2 * limits::kMaxComparisonSeconds * kSecond);
  };
  const auto sweep = Run(Request(SweepAxis::kResolution, {"64", "128", "192"}));
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  const std::vector<SweptPoint>& points = sweep->curves[0].points;
  EXPECT_GT(points[0].multiply_adds, 0);
  EXPECT_EQ(points[1].multiply_adds, 0);
  EXPECT_EQ(points[2].multiply_adds, 0);
  EXPECT_GT(points[2].compute_ms.median, 0) << "what was measured is told";
}

TEST_F(SweeperTest, TellsOfItsProgress) {
  Serve("classifier", kClassifier);
  using Phase = ComparisonProgress::Phase;
  std::vector<Phase> phases;
  int points = 0;
  on_progress_ = [&](const ComparisonProgress& progress) {
    EXPECT_LE(progress.done, progress.total);
    if (progress.phase == Phase::kLoading) points = progress.total;
    if (phases.empty() || phases.back() != progress.phase) phases.push_back(progress.phase);
  };
  ASSERT_TRUE(Run(Request(SweepAxis::kBatch, {"1", "2"}, {"", "knn:k=3"})).ok());
  EXPECT_THAT(phases, testing::ElementsAre(Phase::kLoading, Phase::kMeasuring, Phase::kAnalysing));
  EXPECT_EQ(points, 4);
}

// Row 88.
TEST_F(SweeperTest, WaitsInLineWithComparisons) {
  Serve("classifier", kClassifier);
  sweeper();
  std::promise<void> begun, go_on;
  std::shared_future<void> gate = go_on.get_future().share();
  std::promise<absl::StatusOr<Comparison>> compared;
  comparer_->Compare(
      {.variants = {{.model_name = "classifier"}, {.model_name = "classifier"}},
       .images = {Picture(64, 64, 1)},
       .rounds = 1,
       .max_rounds = 1},
      std::make_shared<Cancellation>(),
      [&, told = false](const ComparisonProgress&) mutable {
        if (!std::exchange(told, true)) begun.set_value();
        gate.wait();
      },
      [&](absl::StatusOr<Comparison> outcome) { compared.set_value(std::move(outcome)); });
  begun.get_future().wait();
  std::promise<void> waiting;
  std::promise<absl::StatusOr<Sweep>> first, second;
  const SweepRequest request = Request(SweepAxis::kBatch, {"1"});
  sweeper().Sweep(
      request, cancellation_,
      [&](const ComparisonProgress& progress) {
        if (progress.phase == ComparisonProgress::Phase::kWaiting) waiting.set_value();
      },
      [&](absl::StatusOr<Sweep> outcome) { first.set_value(std::move(outcome)); });
  waiting.get_future().wait();
  sweeper().Sweep(
      request, std::make_shared<Cancellation>(), [](const ComparisonProgress&) {},
      [&](absl::StatusOr<Sweep> outcome) { second.set_value(std::move(outcome)); });
  EXPECT_THAT(second.get_future().get(), Fails(absl::StatusCode::kUnavailable, "compare.busy"));
  go_on.set_value();
  EXPECT_TRUE(compared.get_future().get().ok());
  EXPECT_TRUE(first.get_future().get().ok());
}

}  // namespace
}  // namespace fovea
