#include "server/compare/live/experiment_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

ExperimentPlan GoodPlan() {
  return {.name = "trial-1",
          .model_name = "vit",
          .arms = {{.variant = {.model_name = "vit"}, .weight = 9},
                   {.variant = {.model_name = "vit", .attention = "knn:k=9"}, .weight = 1},
                   {.variant = {.model_name = "other"}, .shadow = true}}};
}

// Whether it is refused once it is changed.
std::string Refusal(const std::function<void(ExperimentPlan&)>& change) {
  ExperimentPlan plan = GoodPlan();
  change(plan);
  return ReasonOf(CheckPlan(plan));
}

TEST(ExperimentPlan, OneThatCanBe) { EXPECT_EQ(CheckPlan(GoodPlan()), absl::OkStatus()); }

TEST(ExperimentPlan, Row89WhatCannotBeIsSaid) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::function<void(ExperimentPlan&)> changes[] = {
      [](auto& plan) { plan.name = ""; },
      [](auto& plan) { plan.name = "a b"; },
      [](auto& plan) { plan.name = "caf\xc3\xa9"; },
      [](auto& plan) { plan.name = std::string(limits::kMaxExperimentNameBytes + 1, 'a'); },
      [](auto& plan) { plan.model_name = ""; },
      [](auto& plan) { plan.arms.resize(1); },
      [](auto& plan) { plan.arms.resize(limits::kMaxExperimentArms + 1, plan.arms[1]); },
      [](auto& plan) { plan.arms[1].weight = -1; },
      [](auto& plan) { plan.arms[1].weight = kNone; },
      [](auto& plan) { plan.arms[1].weight = kInfinity; },
      [](auto& plan) { plan.arms[1].weight = 0; },  // and no copies
      [](auto& plan) { plan.arms[0].weight = 0; },
      [](auto& plan) { plan.arms[0].shadow = true; },
      [](auto& plan) { plan.arms[0].variant.model_name = "other"; },
      [](auto& plan) { plan.arms[0].variant.model_version = "1"; },
      [](auto& plan) { plan.guard_rails.max_latency_ratio = 0.9; },
      [](auto& plan) { plan.guard_rails.max_latency_ratio = kInfinity; },
      [](auto& plan) { plan.guard_rails.max_disagreement = -0.1; },
      [](auto& plan) { plan.guard_rails.max_disagreement = 1; },
      [](auto& plan) { plan.guard_rails.max_error_excess = kNone; },
      [](auto& plan) { plan.guard_rails.max_time = 31 * 24 * 3600 * kSecond; },
      [](auto& plan) { plan.guard_rails.max_shadow_share = 0.6; },
      [](auto& plan) { plan.error_probability = 0.6; },
      [](auto& plan) { plan.error_probability = kNone; },
      [](auto& plan) { plan.latency_margin = 1; },
      [](auto& plan) { plan.disagreement_margin = -1; },
  };
  int number = 0;
  for (const auto& change : changes) {
    EXPECT_EQ(Refusal(change), "experiment.bad_plan") << "change " << number;
    ++number;
  }
}

TEST(ExperimentPlan, ATimeThatIsTooLongIsToldInItsOwnUnit) {
  ExperimentPlan plan = GoodPlan();
  plan.guard_rails.max_time = (limits::kMaxExperimentSeconds + 1) * kSecond;
  EXPECT_EQ(CheckPlan(plan).message(), "max_seconds is more than 2592000 (30 days)");
  plan.guard_rails.max_time = limits::kMaxExperimentSeconds * kSecond;
  EXPECT_EQ(CheckPlan(plan), absl::OkStatus());
}

TEST(ExperimentPlan, ArmsAreOfOneKind) {
  ModelView model;
  model.name = "vit";
  model.attention = "dense";
  model.sizes = {{224, 224}};
  model.accepted_inputs = {{"pixel_values", DataType::kFp32, {-1, 3, 224, 224}}};
  model.outputs = {{"logits", DataType::kFp32, {-1, 10}}};
  model.num_classes = 10;
  model.max_batch_size = 8;
  ModelView same = model;
  same.attention = "knn:k=9";
  EXPECT_EQ(CheckSameKind(same, model), absl::OkStatus());
  const std::function<void(ModelView&)> changes[] = {
      [](auto& view) { view.task = VisionTask::kDetection; },
      [](auto& view) { view.num_classes = 11; },
      [](auto& view) {
        view.labels = std::make_shared<const std::vector<std::string>>(10, "other");
      },
      [](auto& view) {
        view.sizes = {{256, 256}};
      },
      [](auto& view) {
        view.accepted_inputs[0].shape = {-1, 3, -1, -1};
      },
      [](auto& view) { view.fits_pictures = true; },
      [](auto& view) { view.outputs[0].name = "scores"; },
      [](auto& view) { view.max_batch_size = 4; },
  };
  for (const auto& change : changes) {
    ModelView other = model;
    change(other);
    EXPECT_EQ(ReasonOf(CheckSameKind(other, model)), "experiment.other_kind");
  }
}

// Sizes whose batches have no room are refused to callers.
TEST(ExperimentPlan, AnArmHasRoomForWhatTheBaselineRuns) {
  ModelView model;
  model.name = "vit";
  model.sizes = {{224, 224}, {448, 448}};
  model.device_bytes = {100, 400};
  model.max_device_bytes = 500;
  ModelView arm = model;
  arm.max_device_bytes = 400;
  EXPECT_EQ(CheckSameKind(arm, model), absl::OkStatus());
  arm.max_device_bytes = 300;
  EXPECT_EQ(ReasonOf(CheckSameKind(arm, model)), "serve.too_large");
  model.max_device_bytes = 300;
  EXPECT_EQ(CheckSameKind(arm, model), absl::OkStatus()) << "neither runs the larger";
}

TEST(ExperimentPlan, AnArmIsCalledByItsModelAndAttention) {
  ModelView model;
  model.attention = "knn:k=9";
  EXPECT_EQ(ArmName({.model_name = "vit"}, model), "vit:knn:k=9");
  EXPECT_EQ(ArmName({.model_name = "vit", .model_version = "2"}, model), "vit/2:knn:k=9");
}

}  // namespace
}  // namespace fovea
