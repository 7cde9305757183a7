// Explanations of small models with random weights, and of the bundled classifier.
#include "server/compare/explain/explainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/imaging/probe.h"
#include "tests/server/compare/served_models.h"
#include "tests/server/pipeline/pixel_request.h"

namespace fovea {
namespace {

using testing::Each;
using testing::HasSubstr;

MATCHER_P2(Fails, code, reason, "") {
  *result_listener << arg.status();
  return arg.status().code() == code && ReasonOf(arg.status()) == reason;
}

class ExplainerTest : public ServedModelsTest {
 protected:
  ~ExplainerTest() override { explainer_.reset(); }

  Explainer& explainer(const ExplainerOptions& options = {}) {
    if (explainer_ == nullptr) {
      lane_ = *HeldLane::Create({.device_threads = 1}, *scheduler_, SteadyClock());
      explainer_ = *Explainer::Create(options, models_, Environment(), *lane_);
    }
    return *explainer_;
  }
  static ExplainRequest Request(std::vector<ExplainMethod> methods,
                                const std::string& attention = "") {
    return {.variant = {.model_name = "classifier", .attention = attention},
            .image = Picture(80, 120, 1),
            .methods = std::move(methods)};
  }
  absl::StatusOr<Explanation> Explain(ExplainRequest request) {
    std::promise<absl::StatusOr<Explanation>> promise;
    explainer().Explain(std::move(request), cancellation_,
                        [&](absl::StatusOr<Explanation> explanation) {
                          promise.set_value(std::move(explanation));
                        });
    return promise.get_future().get();
  }

  static constexpr char kClassifier[] =
      "backbone: \"vit_demo_patch8_64\" num_classes: 7 max_batch_size: 1 preprocessing { "
      "crop_fraction: 1.0 }";

  std::unique_ptr<HeldLane> lane_;
  std::unique_ptr<Explainer> explainer_;
};

ImageSize SizeOf(const std::string& png) {
  const auto info = ProbeImage(std::as_bytes(std::span(png)), {});
  if (!info.ok()) return {};
  EXPECT_EQ(info->format, ImageFormat::kPng);
  return {info->height, info->width};
}

// Row 86.
TEST_F(ExplainerTest, AnUnloadWaitsForNoExplanation) {
  // Calls `on_look` when the time is read, as an explanation does when its first part begins.
  class WatchedClock final : public Clock {
   public:
    explicit WatchedClock(std::function<void()> on_look) : on_look_(std::move(on_look)) {}
    Nanos Now() const override {
      on_look_();
      return SteadyClock().Now();
    }
    void WaitUntil(CondVar& condition, Mutex& mutex, Nanos until) override
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      SteadyClock().WaitUntil(condition, mutex, until);
    }

   private:
    const std::function<void()> on_look_;
  };
  Serve("classifier", kClassifier);
  bool removed = false;
  WatchedClock clock([&] {
    if (std::exchange(removed, true)) return;
    EXPECT_TRUE(models_.Remove("classifier")) << "the explanation holds it";
  });
  lane_ = *HeldLane::Create({.device_threads = 1}, *scheduler_, clock);
  explainer_ = *Explainer::Create({}, models_, Environment(), *lane_);
  const auto explanation = Explain(Request({ExplainMethod::kMaps, ExplainMethod::kAttribution}));
  EXPECT_TRUE(removed);
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  EXPECT_EQ(explanation->maps.size(), 7u);
  explainer_.reset();
  lane_.reset();
}

TEST_F(ExplainerTest, TheMapsOfEachLayerAreDrawnAtTheImagesSize) {
  Serve("classifier", kClassifier);
  const auto explanation = Explain(Request({ExplainMethod::kMaps}, "knn:k=9"));
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  EXPECT_EQ(explanation->attention, "knn:k=9");
  EXPECT_EQ(explanation->weights_of_attention, "dense");
  EXPECT_TRUE(explanation->untrained);
  EXPECT_EQ(explanation->image, (ImageSize{80, 120}));
  ASSERT_TRUE(explanation->target.has_value());
  EXPECT_GT(explanation->target->probability, 1.0 / 7);
  ASSERT_EQ(explanation->maps.size(), 6u);
  for (int layer = 0; layer < 6; ++layer) {
    const ExplainedMap& map = explanation->maps[layer];
    EXPECT_EQ(map.layer_number, layer);
    EXPECT_EQ(map.layer, "blocks." + std::to_string(layer));
    EXPECT_EQ(map.head, std::nullopt);
    EXPECT_EQ(map.rows, 8);
    EXPECT_EQ(map.columns, 8);
    ASSERT_EQ(map.values.size(), 64u);
    const double sum = std::accumulate(map.values.begin(), map.values.end(), 0.0);
    EXPECT_GT(sum, 0.5) << "the class token gives the rest to itself";
    EXPECT_LT(sum, 1 + 1e-5);
    EXPECT_EQ(SizeOf(map.png), (ImageSize{80, 120}));
  }
  EXPECT_TRUE(explanation->measures.empty());
}

TEST_F(ExplainerTest, LayersAndHeadsAreChosen) {
  Serve("classifier", kClassifier);
  ExplainRequest request = Request({ExplainMethod::kMaps, ExplainMethod::kRollout});
  request.layers = {5, 0};
  request.heads = {3, 1};
  request.form = PictureForm::kNone;
  const auto chosen = Explain(request);
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  ASSERT_EQ(chosen->maps.size(), 5u);
  EXPECT_EQ(chosen->maps[1].layer, "blocks.5");
  EXPECT_EQ(chosen->maps[1].head, 1);
  EXPECT_EQ(chosen->maps[2].layer_number, 0);
  EXPECT_EQ(chosen->maps[4].method, ExplainMethod::kRollout);
  EXPECT_EQ(chosen->maps[4].layer_number, std::nullopt);
  for (const ExplainedMap& map : chosen->maps) EXPECT_EQ(map.png, "");
  request.heads = {};
  request.layers = {5};
  request.every_head = true;
  const auto every = Explain(request);
  ASSERT_TRUE(every.ok()) << every.status();
  ASSERT_EQ(every->maps.size(), 5u);  // four heads, and the rollout
  EXPECT_EQ(every->maps[1].values, chosen->maps[1].values);
  request.every_head = false;
  const auto mean = Explain(request);
  ASSERT_TRUE(mean.ok()) << mean.status();
  for (int i = 0; i < 64; ++i) {
    double sum = 0;
    for (int head = 0; head < 4; ++head) sum += double{every->maps[head].values[i]};
    EXPECT_NEAR(mean->maps[0].values[i], sum / 4, 1e-6);
  }
}

TEST_F(ExplainerTest, APlaceOfTheImageIsAPatchOfTheModels) {
  Serve("classifier", kClassifier);
  // The model sees the middle 80 x 80 of 80 x 120 pixels, 10 to a patch: pixels 20 to 100.
  ExplainRequest request = Request({ExplainMethod::kMaps}, "knn:k=1");
  request.form = PictureForm::kNone;
  request.layers = {0};
  request.place = ExplainRequest::Place{.x = 20 + 31, .y = 62};
  const auto inside = Explain(request);
  ASSERT_TRUE(inside.ok()) << inside.status();
  request.place = ExplainRequest::Place{.x = 20 + 38, .y = 68};
  const auto same_patch = Explain(request);
  ASSERT_TRUE(same_patch.ok()) << same_patch.status();
  EXPECT_EQ(inside->maps[0].values, same_patch->maps[0].values);
  request.place = ExplainRequest::Place{.x = 20 + 42, .y = 68};
  const auto other_patch = Explain(request);
  ASSERT_TRUE(other_patch.ok()) << other_patch.status();
  EXPECT_NE(inside->maps[0].values, other_patch->maps[0].values);
  for (const double x : {19.0, 100.5, -1.0, std::nan("")}) {
    request.place = ExplainRequest::Place{.x = x, .y = 40};
    const auto outside = Explain(request);
    EXPECT_THAT(outside, Fails(absl::StatusCode::kInvalidArgument, "explain.no_place"));
    EXPECT_THAT(outside.status().message(), HasSubstr("20 to 100 from the left"));
  }
}

TEST_F(ExplainerTest, MeasuresComeAsNumbersAndAsAPlot) {
  Serve("classifier", kClassifier);
  const auto explanation = Explain(Request({ExplainMethod::kMeasures}));
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  EXPECT_TRUE(explanation->maps.empty());
  ASSERT_EQ(explanation->measures.size(), 6u);
  for (const MeasuredLayer& layer : explanation->measures) {
    EXPECT_GT(layer.cosine_similarity, -1);
    EXPECT_LE(layer.cosine_similarity, 1);
    EXPECT_GT(*layer.attention_standard_deviation, 0);
    EXPECT_GT(layer.attention_norm_ratio, 0);
    EXPECT_GT(layer.mlp_norm_ratio, 0);
    EXPECT_EQ(layer.nonlocality.size(), 4u);
    EXPECT_THAT(layer.nonlocality, Each(testing::AllOf(testing::Gt(0), testing::Lt(12))));
  }
  EXPECT_GT(SizeOf(explanation->measures_plot).height, 0);
}

TEST_F(ExplainerTest, AttributionFollowsAClassOfAServedClassifier) {
  Serve("classifier", kClassifier);
  ExplainRequest request = Request({ExplainMethod::kAttribution, ExplainMethod::kGradientRollout});
  request.target_class = 3;
  const auto third = Explain(request);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->target->class_index, 3);
  ASSERT_EQ(third->maps.size(), 2u);
  EXPECT_EQ(SizeOf(third->maps[1].png), (ImageSize{80, 120}));
  request.target_class = 4;
  const auto fourth = Explain(request);
  ASSERT_TRUE(fourth.ok()) << fourth.status();
  EXPECT_NE(third->maps[0].values, fourth->maps[0].values);
}

TEST_F(ExplainerTest, DetectorsAndSegmentersShowTheirBackbones) {
  Serve("detector",
        "backbone: \"vit_demo_patch8_64\" task: DETECTION num_classes: 5 image_height: 64 "
        "image_width: 64 max_batch_size: 1");
  ExplainRequest request = Request({ExplainMethod::kMaps, ExplainMethod::kRollout});
  request.variant.model_name = "detector";
  request.image = Picture(32, 64, 3);
  const auto explanation = Explain(request);
  ASSERT_TRUE(explanation.ok()) << explanation.status();
  EXPECT_EQ(explanation->target, std::nullopt);
  EXPECT_EQ(explanation->maps.size(), 7u);
  EXPECT_EQ(SizeOf(explanation->maps[6].png), (ImageSize{32, 64}));
  request.methods = {ExplainMethod::kAttribution};
  const auto refused = Explain(request);
  EXPECT_THAT(refused, Fails(absl::StatusCode::kFailedPrecondition, "explain.unfit"));
  EXPECT_THAT(refused.status().message(), HasSubstr("gives no classes"));
}

// Row 85.
TEST_F(ExplainerTest, WhatCannotBeExplainedIsSaid) {
  Serve("classifier", kClassifier);
  const auto refusal = [&](auto change,
                           std::vector<ExplainMethod> methods = {ExplainMethod::kMaps}) {
    ExplainRequest request = Request(std::move(methods));
    change(request);
    return Explain(std::move(request));
  };
  using enum absl::StatusCode;
  EXPECT_THAT(refusal([](auto&) {}, {}), Fails(kInvalidArgument, "explain.bad_request"));
  EXPECT_THAT(refusal([](auto& r) { r.layers = {-1}; }),
              Fails(kInvalidArgument, "explain.bad_request"));
  EXPECT_THAT(refusal([](auto& r) { r.heads.assign(1000, 0); }),
              Fails(kInvalidArgument, "explain.bad_request"));
  EXPECT_THAT(refusal([](auto& r) {
                r.heads = {0};
                r.every_head = true;
              }),
              Fails(kInvalidArgument, "explain.bad_request"));
  EXPECT_THAT(refusal([](auto& r) { r.layers = {6}; }),
              Fails(kInvalidArgument, "explain.no_layer"));
  EXPECT_THAT(refusal([](auto& r) { r.heads = {4}; }), Fails(kInvalidArgument, "explain.no_head"));
  EXPECT_THAT(refusal([](auto& r) { r.target_class = 1; }),
              Fails(kInvalidArgument, "explain.bad_request"));
  for (const int none : {-1, 7}) {
    EXPECT_THAT(refusal([&](auto& r) { r.target_class = none; }, {ExplainMethod::kAttribution}),
                Fails(kInvalidArgument, "explain.no_class"));
  }
  EXPECT_THAT(refusal([](auto& r) { r.variant.model_name = "nobody"; }),
              Fails(kNotFound, "model.not_found"));
  EXPECT_THAT(refusal([](auto& r) { r.image = "no picture"; }),
              Fails(kInvalidArgument, "image.unsupported_type"));
  EXPECT_THAT(refusal([](auto& r) { r.variant.attention = "shifted_window"; }),
              Fails(kFailedPrecondition, "model.load_failed"));
  // 256 pictures at most.
  EXPECT_THAT(refusal([](auto& r) {
                r.layers.assign(65, 0);
                r.every_head = true;
                r.form = PictureForm::kNone;
              }),
              Fails(kInvalidArgument, "explain.too_many"));
  EXPECT_THAT(refusal([](auto& r) {
                r.layers.assign(200, 0);
                r.image = Picture(600, 600, 1);
              }),
              Fails(kInvalidArgument, "explain.too_many"));
}

// Row 86.
TEST_F(ExplainerTest, MapsThatDoNotFitAreRefusedBeforeTheyAreMade) {
  Serve("classifier", kClassifier);
  explainer({.max_bytes = 1000});
  const auto explanation = Explain(Request({ExplainMethod::kMaps}));
  EXPECT_THAT(explanation, Fails(absl::StatusCode::kResourceExhausted, "explain.too_large"));
  EXPECT_THAT(explanation.status().message(), HasSubstr("--experiment-memory"));
}

// Row 86.
TEST_F(ExplainerTest, ACancelledOneEnds) {
  Serve("classifier", kClassifier);
  cancellation_->Cancel();
  EXPECT_THAT(Explain(Request({ExplainMethod::kMaps})),
              Fails(absl::StatusCode::kCancelled, "explain.cancelled"));
}

// Row 86: an explanation lasts long, and a model waits for a part of it only.
TEST_F(ExplainerTest, ModelsRunBetweenItsBlocks) {
  constexpr int kWhole = 10;  // parts that it has at least
  Serve("classifier", absl::StrCat(kClassifier, " image_height: 256 image_width: 256"));
  std::atomic<bool> explained = false;
  std::thread asks([&] {
    const auto explanation = Explain(Request(
        {ExplainMethod::kAttribution, ExplainMethod::kGradientRollout, ExplainMethod::kRollout}));
    EXPECT_TRUE(explanation.ok()) << explanation.status();
    explained = true;
  });
  const std::shared_ptr<const ServingModel> model = *models_.Acquire("classifier", "1");
  int answered = 0;
  while (!explained) {
    std::promise<absl::Status> promise;
    ServingModel::Infer(model, PixelRequest(1, 256, SteadyClock().Now()),
                        [&](const absl::StatusOr<InferenceResponse>& response, const StageTimes&) {
                          promise.set_value(response.status());
                        });
    EXPECT_TRUE(promise.get_future().get().ok());
    ++answered;
  }
  asks.join();
  EXPECT_GE(answered, kWhole);
}

TEST_F(ExplainerTest, AfterAStopNothingIsExplained) {
  Serve("classifier", kClassifier);
  explainer().Stop();
  EXPECT_THAT(Explain(Request({ExplainMethod::kMaps})),
              Fails(absl::StatusCode::kUnavailable, "server.draining"));
}

}  // namespace
}  // namespace fovea
