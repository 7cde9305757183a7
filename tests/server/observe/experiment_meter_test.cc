#include "server/observe/experiment_meter.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>

#include "server/observe/metrics.h"
#include "tests/server/observe/exposition.h"

namespace fovea {
namespace {

class ExperimentMeterTest : public testing::Test {
 protected:
  Exposition Scrape() const { return Exposition(metrics_.Text()); }
  std::unique_ptr<ExperimentMeter> Make(const std::string& name) {
    return std::make_unique<ExperimentMeter>(
        metrics_.families(), name, "vit", std::vector<std::string>{"vit:dense", "vit/2:knn:k=9"});
  }

  Metrics metrics_;
};

TEST_F(ExperimentMeterTest, CountsByArmAndOutcomeFromTheStart) {
  const auto meter = Make("trial");
  EXPECT_EQ(Scrape().Sum("fovea_experiment_running", {{"experiment", "trial"}, {"model", "vit"}}),
            1);
  EXPECT_EQ(Scrape().Find("fovea_experiment_requests_total").size(), 8u);
  EXPECT_EQ(Scrape().Sum("fovea_experiment_requests_total"), 0);
  meter->OnRequest(1, ArmOutcome::kOk);
  meter->OnRequest(1, ArmOutcome::kShadowSkipped);
  for (const char* const outcome : {"ok", "shadow_skipped"}) {
    EXPECT_EQ(
        Scrape().Sum("fovea_experiment_requests_total",
                     {{"experiment", "trial"}, {"arm", "vit/2:knn:k=9"}, {"outcome", outcome}}),
        1);
  }
}

TEST_F(ExperimentMeterTest, IntervalsAreThereOnceThereIsSomethingToSay) {
  const auto meter = Make("trial");
  EXPECT_TRUE(Scrape().Find("fovea_experiment_latency_ratio").empty());
  meter->SetLatencyRatio(1, {1.5, 0, std::numeric_limits<double>::infinity()});
  meter->SetLatencyRatio(1, {1.5, 1.25, 1.75});
  meter->SetDisagreement(1, {0.5, 0.25, 0.75});
  meter->SetErrorExcess(1, {0, -0.25, 0.25});
  const Exposition page = Scrape();
  const auto value = [&](const std::string& name, const std::string& bound) {
    return page.Sum(name, {{"arm", "vit/2:knn:k=9"}, {"bound", bound}});
  };
  EXPECT_EQ(page.Find("fovea_experiment_latency_ratio").size(), 3u);
  EXPECT_EQ(value("fovea_experiment_latency_ratio", "estimate"), 1.5);
  EXPECT_EQ(value("fovea_experiment_latency_ratio", "upper"), 1.75);
  EXPECT_EQ(value("fovea_experiment_disagreement", "lower"), 0.25);
  EXPECT_EQ(value("fovea_experiment_error_excess", "lower"), -0.25);
}

TEST_F(ExperimentMeterTest, ItsSeriesGoWithItAndItsEndStays) {
  ExperimentMeter::CountEnds(metrics_.families());
  EXPECT_EQ(Scrape().Find("fovea_experiments_ended_total").size(), 4u);
  auto meter = Make("trial");
  meter->SetErrorExcess(1, {0, -1, 1});
  meter->OnEnded(ExperimentState::kGuardRail);
  EXPECT_EQ(Scrape().Sum("fovea_experiment_running"), 0);
  EXPECT_EQ(Scrape().Find("fovea_experiment_running").size(), 1u);
  const auto other = Make("other");
  meter.reset();
  const auto left = Scrape();
  for (const Sample& sample : left.samples()) {
    const auto name = sample.labels.find("experiment");
    EXPECT_TRUE(name == sample.labels.end() || name->second == "other") << sample.name;
  }
  EXPECT_EQ(Scrape().Sum("fovea_experiments_ended_total", {{"reason", "guard_rail"}}), 1);
  EXPECT_EQ(Scrape().Sum("fovea_experiments_ended_total"), 1);
}

}  // namespace
}  // namespace fovea
