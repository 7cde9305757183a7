// Comparisons of small models with random weights, of every task, and of the bundled classifier.
#include "server/compare/measure/comparer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/compare/experiment_line.h"
#include "server/compare/held_lane.h"
#include "server/repository/model_repository.h"
#include "tests/server/compare/late_clock.h"
#include "tests/server/compare/served_models.h"

namespace fovea {
namespace {

using testing::Each;
using testing::HasSubstr;

MATCHER_P2(Fails, code, reason, "") {
  *result_listener << arg.status();
  return arg.status().code() == code && ReasonOf(arg.status()) == reason;
}

class ComparerTest : public ServedModelsTest {
 protected:
  ~ComparerTest() override {
    line_.reset();
    comparer_.reset();
  }

  ServedModel::Environment Environment() {
    const ServedModel::Environment steady = ServedModelsTest::Environment();
    return {.scheduler = steady.scheduler,
            .imaging = steady.imaging,
            .clock = clock_,
            .observe = steady.observe,
            .device_threads = steady.device_threads};
  }
  Comparer& comparer(const ComparerOptions& options = {}, size_t max_waiting = 8) {
    if (comparer_ == nullptr) {
      lane_ = *HeldLane::Create({.device_threads = 1}, Environment().scheduler, clock_);
      line_ = *ExperimentLine::Create(
          {.name = "compare", .what = "comparisons", .max_waiting = max_waiting});
      comparer_ = std::make_unique<Comparer>(options, models_, Environment(), *lane_, *line_);
    }
    return *comparer_;
  }

  CompareRequest Request(std::vector<Variant> variants) const {
    return {.variants = std::move(variants),
            .images = {Picture(64, 64, 1), Picture(64, 64, 2)},
            .rounds = 20,
            .max_rounds = 20};
  }
  absl::StatusOr<Comparison> Compare(CompareRequest request) {
    std::promise<absl::StatusOr<Comparison>> promise;
    comparer().Compare(
        std::move(request), cancellation_,
        [this](const ComparisonProgress& progress) {
          if (on_progress_) on_progress_(progress);
        },
        [&](absl::StatusOr<Comparison> comparison) { promise.set_value(std::move(comparison)); });
    return promise.get_future().get();
  }

  static constexpr char kClassifier[] =
      "backbone: \"vit_demo_patch8_64\" num_classes: 7 max_batch_size: 1";

  LateClock clock_;
  std::function<void(const ComparisonProgress&)> on_progress_;
  std::unique_ptr<HeldLane> lane_;
  std::unique_ptr<ExperimentLine> line_;
  std::unique_ptr<Comparer> comparer_;
};

TEST_F(ComparerTest, AnAttentionOverTheSameWeights) {
  Serve("classifier", kClassifier);
  const auto comparison = Compare(Request({{.model_name = "classifier"},
                                           {.model_name = "classifier", .attention = "knn:k=65"},
                                           {.model_name = "classifier", .attention = "knn:k=3"}}));
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  ASSERT_EQ(comparison->variants.size(), 3u);
  EXPECT_EQ(comparison->rounds, 20);
  EXPECT_EQ(comparison->threads, 1);
  EXPECT_EQ(comparison->device, "CPU");
  ASSERT_EQ(comparison->images.size(), 2u);
  EXPECT_EQ(comparison->images[0].size, (ImageSize{64, 64}));
  EXPECT_GT(comparison->variants[0].decode_ms.median, 0);
  EXPECT_GT(comparison->variants[0].preprocess_ms.median, 0);
  const auto& [own, all_keys, few_keys] =
      std::tie(comparison->variants[0], comparison->variants[1], comparison->variants[2]);
  EXPECT_EQ(own.weights_of_attention, "");
  EXPECT_EQ(few_keys.attention, "knn:k=3");
  EXPECT_EQ(few_keys.weights_of_attention, own.attention);
  for (const ComparedVariant& variant : comparison->variants) {
    EXPECT_GT(variant.compute.ms.median, 0);
    ASSERT_TRUE(variant.attention_ms.has_value());
    EXPECT_GT(variant.attention_ms->median, 0);
    EXPECT_LT(variant.attention_ms->upper, variant.compute.ms.upper) << "in the same passes";
    EXPECT_FALSE(variant.attention_left_out);
    EXPECT_GT(variant.peak_bytes, 0);
    EXPECT_EQ(variant.parameters, own.parameters);
    EXPECT_EQ(variant.multiply_adds, own.multiply_adds) << "k-NN computes every logit";
    EXPECT_GT(variant.multiply_adds, 1'000'000);
  }
  EXPECT_TRUE(comparison->control.ratio.has_value());
  EXPECT_EQ(own.compute.verdict, Verdict::kBaseline);
  EXPECT_TRUE(few_keys.compute.ratio.has_value());
  // All 65 keys are what dense attention takes.
  const auto& same = std::get<ClassAgreement>(all_keys.agreement);
  EXPECT_EQ(same.images, 2);
  EXPECT_EQ(same.same_top1, 2);
  EXPECT_LT(same.kl_divergence, 1e-6);
  EXPECT_NEAR(*all_keys.feature_cosine, 1, 1e-5);
  const auto& changed = std::get<ClassAgreement>(few_keys.agreement);
  EXPECT_GT(changed.kl_divergence, same.kl_divergence);
  EXPECT_LT(*few_keys.feature_cosine, *all_keys.feature_cosine);
}

TEST_F(ComparerTest, ConfidencesThatAreSigmoidsAreComparedAsSuch) {
  Serve("thing",
        "backbone: \"vit_demo_patch8_64\" num_classes: 1 max_batch_size: 1 "
        "classifier_activation: SIGMOID");
  const auto comparison =
      Compare(Request({{.model_name = "thing"}, {.model_name = "thing", .attention = "knn:k=3"}}));
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  const auto& changed = std::get<ClassAgreement>(comparison->variants[1].agreement);
  // With one class, a softmax would give 1 for both.
  EXPECT_GT(changed.kl_divergence, 0);
  EXPECT_GT(changed.max_confidence_difference, 0);
}

TEST_F(ComparerTest, TellsTheTimesSoFarWhileItMeasures) {
  Serve("classifier", kClassifier);
  size_t with_times = 0;
  double median = 0;  // of the baseline
  int changes = 0;    // of the last ten
  on_progress_ = [&](const ComparisonProgress& progress) {
    clock_.Add(kSecond);  // they are not looked at in every round of a fast model
    const bool measured =
        progress.phase == ComparisonProgress::Phase::kMeasuring && progress.done > 0;
    ASSERT_EQ(progress.so_far.size(), measured ? 2u : 0u);
    if (!measured) return;
    ++with_times;
    for (const TimeSoFar& time : progress.so_far) {
      EXPECT_GT(time.compute_ms.median, 0);
      EXPECT_LE(time.compute_ms.lower, time.compute_ms.median);
      EXPECT_LE(time.compute_ms.median, time.compute_ms.upper);
      EXPECT_GT(time.ratio, 0);
    }
    EXPECT_EQ(progress.so_far[0].ratio, 1);
    const double before = std::exchange(median, progress.so_far[0].compute_ms.median);
    if (with_times >= 10 && median != before) ++changes;
    EXPECT_NE(progress.so_far[1].compute_ms, progress.so_far[0].compute_ms);
  };
  const auto comparison = Compare(Request(
      {{.model_name = "classifier"}, {.model_name = "classifier", .attention = "knn:k=3"}}));
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(with_times, 19u) << "one before each round but the first";
  EXPECT_GT(changes, 0) << "they follow what is measured, to the end";
}

TEST_F(ComparerTest, Row84AnUnloadWaitsForNoComparison) {
  Serve("classifier", kClassifier);
  bool removed = false;
  on_progress_ = [&](const ComparisonProgress&) {
    if (std::exchange(removed, true)) return;
    EXPECT_TRUE(models_.Remove("classifier")) << "the comparison holds it";
  };
  const auto comparison = Compare(Request(
      {{.model_name = "classifier"}, {.model_name = "classifier", .attention = "knn:k=3"}}));
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(comparison->rounds, 20);
  EXPECT_GT(comparison->variants[1].multiply_adds, 0) << "it is loaded once more to be analysed";
}

// A test of validity, of real passes. One in a hundred may err; where the control had the
// baseline's own weights, which the caches held more often, most did.
TEST_F(ComparerTest, AModelIsNotFoundDifferentFromItself) {
  Serve("classifier", kClassifier);
  CompareRequest request = Request({{.model_name = "classifier"}, {.model_name = "classifier"}});
  request.max_rounds = 80;
  int errors = 0;
  for (int i = 0; i < 3; ++i) {
    const auto comparison = Compare(request);
    ASSERT_TRUE(comparison.ok()) << comparison.status();
    const Verdict verdict = comparison->variants[1].compute.verdict;
    errors += verdict == Verdict::kFaster || verdict == Verdict::kSlower;
  }
  EXPECT_LE(errors, 1);
}

TEST_F(ComparerTest, FeaturesOfOtherWeightsAreNotCompared) {
  Serve("classifier", kClassifier);
  Serve("sibling", kClassifier);
  const auto comparison =
      Compare(Request({{.model_name = "classifier"}, {.model_name = "sibling"}}));
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_FALSE(comparison->variants[1].feature_cosine.has_value());
  EXPECT_EQ(comparison->variants[1].weights_of_attention, "");
}

TEST_F(ComparerTest, ABatchTakesMoreThanAnImage) {
  Serve("classifier", kClassifier);
  CompareRequest request =
      Request({{.model_name = "classifier"}, {.model_name = "classifier", .attention = "knn:k=3"}});
  request.batch_size = 4;
  request.threads = 1;
  const auto batches = Compare(request);
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ(batches->batch_size, 4);
  EXPECT_EQ(batches->threads, 1);
  request.batch_size = 1;
  const auto single = Compare(request);
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_GT(batches->variants[0].peak_bytes, 2 * single->variants[0].peak_bytes);
  EXPECT_NEAR(batches->variants[0].images_per_second, 4e3 / batches->variants[0].compute.ms.median,
              1e-6);
  EXPECT_NEAR(single->variants[0].images_per_second, 1e3 / single->variants[0].compute.ms.median,
              1e-6);
}

TEST_F(ComparerTest, DetectorsAreComparedByTheirObjectsAtEachSize) {
  Serve("detector",
        "backbone: \"linglo_b0\" task: DETECTION num_classes: 3 max_batch_size: 1 "
        "head { name: \"retinanet\" score_threshold: 0 detections_per_image: 20 } "
        "image_height: 64 image_width: 96 further_image_sizes { height: 96 width: 64 } "
        "preprocessing { shorter_side: 64 longer_side: 96 }");
  CompareRequest request = Request({{.model_name = "detector"}, {.model_name = "detector"}});
  request.images = {Picture(64, 96, 1), Picture(96, 64, 2)};
  const auto comparison = Compare(request);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  const auto& objects = std::get<ObjectAgreement>(comparison->variants[1].agreement);
  EXPECT_EQ(objects.objects, 40);
  EXPECT_EQ(objects.matched, 40) << "the same model twice";
  EXPECT_NEAR(objects.mean_box_iou, 1, 1e-6);
  EXPECT_NEAR(*comparison->variants[1].feature_cosine, 1, 1e-6);
}

TEST_F(ComparerTest, SegmentersAreComparedByTheirMaps) {
  Serve("segmenter",
        "backbone: \"linglo_b0\" task: SEGMENTATION num_classes: 3 max_batch_size: 1 "
        "head { name: \"semantic_fpn\" } image_height: 64 image_width: 64 "
        "preprocessing { shorter_side: 64 longer_side: 64 }");
  const auto comparison =
      Compare(Request({{.model_name = "segmenter"}, {.model_name = "segmenter"}}));
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  const auto& maps = std::get<MapAgreement>(comparison->variants[1].agreement);
  EXPECT_EQ(maps.same_pixels, 1);
  EXPECT_EQ(maps.mean_iou, 1);
}

// Row 83.
TEST_F(ComparerTest, RefusesAtOnceWhatCannotBeCompared) {
  Serve("classifier", kClassifier);
  const Variant own{.model_name = "classifier"};
  EXPECT_THAT(Compare(Request({own})),
              Fails(absl::StatusCode::kInvalidArgument, "compare.bad_request"));
  EXPECT_THAT(Compare(Request(std::vector<Variant>(9, own))),
              Fails(absl::StatusCode::kInvalidArgument, "compare.bad_request"));
  CompareRequest request = Request({own, own});
  request.images.clear();
  EXPECT_THAT(Compare(request), Fails(absl::StatusCode::kInvalidArgument, "compare.bad_request"));
  for (int CompareRequest::*number :
       {&CompareRequest::rounds, &CompareRequest::max_rounds, &CompareRequest::batch_size}) {
    request = Request({own, own});
    request.*number = 1'000'000;
    EXPECT_THAT(Compare(request), Fails(absl::StatusCode::kInvalidArgument, "compare.bad_request"));
    request.*number = -1;
    EXPECT_THAT(Compare(request), Fails(absl::StatusCode::kInvalidArgument, "compare.bad_request"));
  }
  request = Request({own, own});
  request.threads = 2;
  EXPECT_THAT(Compare(request), Fails(absl::StatusCode::kInvalidArgument, "compare.bad_request"));
}

// Row 83.
TEST_F(ComparerTest, SaysWhyAVariantCannotBe) {
  Serve("classifier", kClassifier);
  const Variant own{.model_name = "classifier"};
  EXPECT_THAT(Compare(Request({own, {.model_name = "nobody"}})),
              Fails(absl::StatusCode::kNotFound, "model.not_found"));
  const auto windows =
      Compare(Request({own, {.model_name = "classifier", .attention = "shifted_window"}}));
  EXPECT_THAT(windows, Fails(absl::StatusCode::kFailedPrecondition, "model.load_failed"));
  EXPECT_THAT(Compare(Request({own, {.model_name = "classifier", .attention = "no such"}})),
              Fails(absl::StatusCode::kFailedPrecondition, "model.load_failed"));
  CompareRequest request = Request({own, own});
  request.images[1] = "no picture";
  const auto broken = Compare(request);
  EXPECT_EQ(broken.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(broken.status().message()), HasSubstr("image 2: "));
}

TEST_F(ComparerTest, WhatHasNoAttentionHasNoTimeOfIt) {
  constexpr char kFrame[] = "backbone: \"demo_frame_64\" num_classes: 7 max_batch_size: 1 ";
  Serve("attends", absl::StrCat(kFrame, "attention: \"key_only\""));
  Serve("convolves", absl::StrCat(kFrame, "attention: \"conv\""));
  const auto comparison =
      Compare(Request({{.model_name = "attends"}, {.model_name = "convolves"}}));
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  ASSERT_TRUE(comparison->variants[0].attention_ms.has_value());
  EXPECT_LT(comparison->variants[0].attention_ms->median,
            comparison->variants[0].compute.ms.median / 2)
      << "of key-only attention the most is in its projections";
  EXPECT_FALSE(comparison->variants[1].attention_ms.has_value());
}

TEST_F(ComparerTest, RefusesVariantsOfDifferentTasks) {
  Serve("classifier", kClassifier);
  Serve("segmenter",
        "backbone: \"linglo_b0\" task: SEGMENTATION num_classes: 3 max_batch_size: 1 "
        "head { name: \"semantic_fpn\" } image_height: 64 image_width: 64");
  EXPECT_THAT(Compare(Request({{.model_name = "classifier"}, {.model_name = "segmenter"}})),
              Fails(absl::StatusCode::kInvalidArgument, "compare.other_task"));
}

// Row 84.
TEST_F(ComparerTest, HoldsNoMoreThanItMay) {
  Serve("classifier", kClassifier);
  comparer({.max_bytes = 1000});
  EXPECT_THAT(Compare(Request({{.model_name = "classifier"}, {.model_name = "classifier"}})),
              Fails(absl::StatusCode::kResourceExhausted, "compare.too_large"));
}

// Row 84: what each of them holds counts for those behind it.
TEST_F(ComparerTest, AllTogetherHoldNoMoreThanTheyMay) {
  Serve("classifier", kClassifier);
  const CompareRequest request =
      Request({{.model_name = "classifier"}, {.model_name = "classifier"}});
  const auto comparison = Compare(request);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  const ComparedVariant& one = comparison->variants[0];
  const int64_t pictures = 2 * 64 * 64 * 3;  // they count, too
  // The third is the control.
  for (const auto& [max_bytes, fits] :
       {std::pair{one.weight_bytes * 3 / 2 + 2 * one.peak_bytes, false},
        {3 * (one.weight_bytes + one.peak_bytes) + pictures, true}}) {
    line_.reset();
    comparer_.reset();
    comparer({.max_bytes = max_bytes});
    EXPECT_EQ(ReasonOf(Compare(request).status()), fits ? "" : "compare.too_large");
  }
}

// Row 84.
TEST_F(ComparerTest, RefusesPassesForWhichModelsWouldWaitTooLong) {
  Serve("classifier", kClassifier);
  ComparerOptions options;
  options.max_pass = 1;
  comparer(options);
  bool measured = false;
  on_progress_ = [&](const ComparisonProgress& progress) {
    measured |= progress.phase == ComparisonProgress::Phase::kMeasuring;
  };
  EXPECT_THAT(Compare(Request({{.model_name = "classifier"}, {.model_name = "classifier"}})),
              Fails(absl::StatusCode::kResourceExhausted, "compare.too_slow"));
  EXPECT_FALSE(measured);
}

// Row 84.
TEST_F(ComparerTest, RefusesLoadsForWhichOthersWouldWaitTooLong) {
  Serve("classifier", kClassifier);
  ComparerOptions options;
  options.max_load = 1;
  comparer(options);
  EXPECT_THAT(Compare(Request({{.model_name = "classifier"}, {.model_name = "classifier"}})),
              Fails(absl::StatusCode::kResourceExhausted, "compare.too_slow"));
}

// Row 84.
TEST_F(ComparerTest, AnHourEndsItBeforeItIsMeasured) {
  Serve("classifier", kClassifier);
  // Before the second is loaded, which is given up then, and before the first pass: behind the
  // control.
  for (const int loaded : {1, 3}) {
    on_progress_ = [&](const ComparisonProgress& progress) {
      EXPECT_LE(progress.done, loaded);
      if (progress.phase == ComparisonProgress::Phase::kLoading && progress.done == loaded) {
        clock_.Add(limits::kMaxComparisonSeconds * kSecond);
      }
    };
    EXPECT_THAT(Compare(Request({{.model_name = "classifier"}, {.model_name = "classifier"}})),
                Fails(absl::StatusCode::kDeadlineExceeded, "compare.too_long"));
  }
}

// Row 84.
TEST_F(ComparerTest, WhatWasMeasuredInAnHourIsTold) {
  Serve("classifier", kClassifier);
  on_progress_ = [this](const ComparisonProgress& progress) {
    if (progress.phase == ComparisonProgress::Phase::kMeasuring && progress.done == 3) {
      clock_.Add(limits::kMaxComparisonSeconds * kSecond);
    }
  };
  CompareRequest request = Request({{.model_name = "classifier"}, {.model_name = "classifier"}});
  request.max_time = 2 * limits::kMaxComparisonSeconds * kSecond;
  const auto comparison = Compare(request);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(comparison->rounds, 4);
  for (const ComparedVariant& variant : comparison->variants) {
    EXPECT_GT(variant.compute.ms.median, 0);
    EXPECT_EQ(variant.multiply_adds, 0) << "nothing is loaded anew any more";
    EXPECT_FALSE(variant.feature_cosine.has_value());
  }
}

// Row 84: it is run as it was loaded, not prepared for speed, and may take longer than before.
TEST_F(ComparerTest, WhatWasMeasuredIsToldWhereAnAnalysisTakesTooLong) {
  Serve("classifier", kClassifier);
  const Nanos max_pass = limits::kMaxExperimentPassSeconds * kSecond;
  on_progress_ = [&](const ComparisonProgress& progress) {
    if (progress.phase != ComparisonProgress::Phase::kAnalysing) return;
    clock_.AddAtEachLook(progress.done < progress.total ? max_pass + kSecond : 0);
  };
  const auto comparison =
      Compare(Request({{.model_name = "classifier"}, {.model_name = "classifier"}}));
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  ASSERT_LT(clock_.added(), limits::kMaxComparisonSeconds * kSecond / 2) << "not by its end";
  for (const ComparedVariant& variant : comparison->variants) {
    EXPECT_GT(variant.compute.ms.median, 0);
    EXPECT_EQ(variant.multiply_adds, 0);
    EXPECT_FALSE(variant.feature_cosine.has_value());
  }
}

// Row 84.
TEST_F(ComparerTest, EndsWhenItsCallerGoes) {
  Serve("classifier", kClassifier);
  on_progress_ = [this](const ComparisonProgress& progress) {
    if (progress.phase == ComparisonProgress::Phase::kMeasuring && progress.done == 3) {
      cancellation_->Cancel();
    }
  };
  CompareRequest request = Request({{.model_name = "classifier"}, {.model_name = "classifier"}});
  request.rounds = request.max_rounds = 10'000;
  EXPECT_THAT(Compare(request), Fails(absl::StatusCode::kCancelled, "compare.cancelled"));
}

TEST_F(ComparerTest, TellsOfItsProgress) {
  Serve("classifier", kClassifier);
  std::vector<ComparisonProgress::Phase> phases;
  on_progress_ = [&](const ComparisonProgress& progress) {
    EXPECT_LE(progress.done, progress.total);
    if (phases.empty() || phases.back() != progress.phase) phases.push_back(progress.phase);
  };
  ASSERT_TRUE(Compare(Request({{.model_name = "classifier"}, {.model_name = "classifier"}})).ok());
  using Phase = ComparisonProgress::Phase;
  EXPECT_THAT(phases, testing::ElementsAre(Phase::kLoading, Phase::kMeasuring, Phase::kAnalysing));
}

// Row 84.
TEST_F(ComparerTest, RunsOneAtATimeAndRefusesWhatTooManyWaitFor) {
  Serve("classifier", kClassifier);
  comparer({}, /*max_waiting=*/1);
  std::promise<void> begun, go_on;
  std::shared_future<void> gate = go_on.get_future().share();
  const auto ask = [&](ProgressListener progress) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<Comparison>>>();
    comparer_->Compare(
        Request({{.model_name = "classifier"}, {.model_name = "classifier"}}),
        std::make_shared<Cancellation>(), std::move(progress),
        [promise](absl::StatusOr<Comparison> outcome) { promise->set_value(std::move(outcome)); });
    return promise->get_future();
  };
  auto first = ask([&, told = false](const ComparisonProgress&) mutable {
    if (!std::exchange(told, true)) begun.set_value();
    gate.wait();
  });
  begun.get_future().wait();
  auto second = ask([](const ComparisonProgress&) {});
  auto third = ask([](const ComparisonProgress&) {});
  EXPECT_THAT(third.get(), Fails(absl::StatusCode::kUnavailable, "compare.busy"));
  go_on.set_value();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
}

TEST_F(ComparerTest, StoppingEndsWhatRunsAndWhatWaits) {
  Serve("classifier", kClassifier);
  std::promise<void> measuring;
  std::promise<absl::StatusOr<Comparison>> first, second;
  CompareRequest request = Request({{.model_name = "classifier"}, {.model_name = "classifier"}});
  request.rounds = request.max_rounds = 10'000;
  comparer().Compare(
      request, cancellation_,
      [&, told = false](const ComparisonProgress& progress) mutable {
        if (progress.phase != ComparisonProgress::Phase::kMeasuring) return;
        if (!std::exchange(told, true)) measuring.set_value();
      },
      [&](absl::StatusOr<Comparison> outcome) { first.set_value(std::move(outcome)); });
  comparer().Compare(
      request, std::make_shared<Cancellation>(), [](const ComparisonProgress&) {},
      [&](absl::StatusOr<Comparison> outcome) { second.set_value(std::move(outcome)); });
  measuring.get_future().wait();
  line_->Stop();
  EXPECT_THAT(first.get_future().get(), Fails(absl::StatusCode::kUnavailable, "server.draining"));
  EXPECT_THAT(second.get_future().get(), Fails(absl::StatusCode::kUnavailable, "server.draining"));
  EXPECT_THAT(Compare(request), Fails(absl::StatusCode::kUnavailable, "server.draining"));
}

// From a file: loaded anew while the model serves, and after its file was replaced.
TEST(ComparerRepositoryTest, LoadsTheWeightsThatServe) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "comparer_repository";
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::copy(fs::path(FOVEA_SOURCE_DIR) / "model_zoo/demo/shapes", folder / "shapes",
           fs::copy_options::recursive);
  auto scheduler = *Scheduler::Create({.device_threads = 1}, SteadyClock());
  auto imaging = *ImagingPool::Create({.threads = 1}, SteadyClock());
  const ServedModel::Environment environment{
      .scheduler = *scheduler,
      .imaging = *imaging,
      .clock = SteadyClock(),
      .observe = [](const auto&) { return std::make_unique<SilentObserver>(); },
      .device_threads = 1};
  class Nobody final : public RepositoryObserver {
    void OnLoad(const LoadReport&) override {}
    void OnCanary(const CanaryReport&) override {}
    void OnLost(std::string_view, int64_t, const absl::Status&) override {}
    void OnUnloaded(std::string_view, int64_t) override {}
    void OnUnreadableRepository(const absl::Status&) override {}
    void OnIgnoredFolder(std::string_view) override {}
  };
  Nobody observer;
  std::vector<std::unique_ptr<RepositoryFs>> folders;
  folders.push_back(MakeRepositoryFs(folder));
  auto repository = *ModelRepository::Create(
      {}, std::move(folders),
      [&](const VersionToLoad& model) { return ServedModel::Create(model, environment); },
      observer);
  ASSERT_TRUE(repository->Start().ok());
  repository->WaitUntilTried();
  const auto lane =
      *HeldLane::Create({.device_threads = 1}, environment.scheduler, environment.clock);
  std::unique_ptr<Comparer> comparer;
  const auto line = *ExperimentLine::Create({.name = "compare", .what = "comparisons"});
  comparer = std::make_unique<Comparer>(ComparerOptions(), *repository, environment, *lane, *line);
  std::ifstream file(fs::path(FOVEA_SOURCE_DIR) / "client/examples/star.jpg", std::ios::binary);
  std::ostringstream image;
  image << file.rdbuf();
  const CompareRequest request{
      .variants = {{.model_name = "shapes"}, {.model_name = "shapes", .attention = "knn:k=0.5"}},
      .images = {image.str()},
      .rounds = 20,
      .max_rounds = 20};
  const auto compare = [&] {
    std::promise<absl::StatusOr<Comparison>> promise;
    comparer->Compare(
        request, std::make_shared<Cancellation>(), [](const ComparisonProgress&) {},
        [&](absl::StatusOr<Comparison> outcome) { promise.set_value(std::move(outcome)); });
    return promise.get_future().get();
  };
  const auto comparison = compare();
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(std::get<ClassAgreement>(comparison->variants[1].agreement).same_top1, 1);
  EXPECT_FALSE(comparison->variants[1].untrained);
  std::ofstream(folder / "shapes/1/model.safetensors", std::ios::app) << "more";
  EXPECT_EQ(compare().status().code(), absl::StatusCode::kUnavailable)
      << "it is no longer the file that serves";
  comparer.reset();
}

}  // namespace
}  // namespace fovea
