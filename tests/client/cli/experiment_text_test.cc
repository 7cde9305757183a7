#include "client/cpp/cli/experiment_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cpp/cli/experiment_json.h"

namespace fovea::client {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using Verdict = SequentialTest::Verdict;

// Two models, of which the second gets copies only.
Experiment Example() {
  Experiment experiment{
      .plan = {.name = "night",
               .model_name = "shapes",
               .arms = {{.variant = {.model = {"shapes", ""}}, .weight = 1},
                        {.variant = {.model = {"shapes_knn", ""}}, .shadow = true}},
               .error_probability = 0.05},
      .state = ExperimentState::kRunning,
      .running = absl::Seconds(75.9),
      .measured = {.at = "2026-11-28T10:00:00Z",
                   .by = "fovea-server 0.1.0",
                   .processor = "AMD EPYC",
                   .cores = 2}};
  experiment.arms = {
      {.name = "shapes:dense",
       .model = {"shapes", "1"},
       .attention = "dense",
       .requests = 12,
       .mean_latency_ms = 4},
      {.name = "shapes_knn:knn:k=0.5",
       .model = {"shapes_knn", "1"},
       .attention = "knn:k=0.5",
       .latency_ratio = SequentialTest{0.8, 0.7, 0.9, 20, Verdict::kLower},
       .disagreement = SequentialTest{0.125, 0.0625, 0.25, 40, Verdict::kHigher},
       .error_excess = SequentialTest{-0.01, -0.02, 0.01, 40, Verdict::kEquivalent}}};
  return experiment;
}

std::string Printed(const Experiment& experiment) {
  std::ostringstream out;
  PrintExperiment(experiment, out, /*colour=*/false);
  return out.str();
}

TEST(ExperimentText, NamesArmsAsReceiptsDoTheirModelsAndWhatAShadowIs) {
  EXPECT_THAT(Printed(Example()), HasSubstr(R"(night: running for 1m15s on the traffic of shapes

ARM                   MODEL         TRAFFIC  REQUESTS  FAILED  COPIES  SKIPPED  MEAN ms
shapes:dense          shapes/1      100.0 %        12       0                      4.00
shapes_knn:knn:k=0.5  shapes_knn/1   shadow         0       0       0        0        -

AGAINST shapes:dense  LATENCY )"));
  EXPECT_THAT(Printed(Example()), HasSubstr("compute stage"));
}

TEST(ExperimentText, NamesTheModelOfThePlanWhereAVariantAnswersUnderItsOwnName) {
  Experiment experiment = Example();
  experiment.arms[1].name = "shapes:knn:k=0.5";
  experiment.arms[1].model = {"variant.shapes.1.knn-k-0.5", "1"};
  experiment.plan.arms[1].variant = {.model = {"shapes", ""}, .attention = "knn:k=0.5"};
  EXPECT_THAT(Printed(experiment), HasSubstr("\nshapes:knn:k=0.5  shapes/1 "));
  EXPECT_THAT(Printed(experiment), Not(HasSubstr("variant.shapes")));
}

TEST(ExperimentText, MakesTheNamesOfArmsPrintable) {
  Experiment experiment = Example();
  for (ArmReport& arm : experiment.arms) arm.name += "\x1b[31m";
  EXPECT_THAT(Printed(experiment), HasSubstr("AGAINST shapes:dense?[31m"));
  EXPECT_THAT(Printed(experiment), Not(HasSubstr("\x1b")));
}

TEST(ExperimentText, HasNoColumnsOfCopiesWhereNobodyShadows) {
  Experiment experiment = Example();
  experiment.plan.arms[1].shadow = false;
  EXPECT_THAT(Printed(experiment), Not(HasSubstr("COPIES")));
  EXPECT_THAT(Printed(experiment), Not(HasSubstr("copies")));
  EXPECT_THAT(Printed(experiment), HasSubstr(" none "));
}

TEST(ExperimentText, SaysEachVerdictWithItsInterval) {
  const Experiment experiment = Example();
  const ArmReport& arm = experiment.arms[1];
  EXPECT_EQ(LatencyText(*arm.latency_ratio), "faster: 0.800 [0.700, 0.900]");
  EXPECT_EQ(DisagreementText(*arm.disagreement), "differs: 12.5 % [6.2, 25.0]");
  EXPECT_EQ(ErrorsText(*arm.error_excess), "equivalent: -1.0 % [-2.0, 1.0]");
  SequentialTest test{1, 0, std::numeric_limits<double>::infinity(), 23, Verdict::kUndecided};
  EXPECT_EQ(LatencyText(test), "undecided: too few yet (23)");
  test.upper = 4;
  EXPECT_EQ(LatencyText(test), "undecided: 1.000 [0.000, 4.000]");
  test = {1.25, 1.125, 1.5, 9, Verdict::kHigher};
  EXPECT_EQ(LatencyText(test), "slower: 1.250 [1.125, 1.500]");
  EXPECT_EQ(ErrorsText(test), "fails more: 125.0 % [112.5, 150.0]");
  test.verdict = Verdict::kUnknown;
  EXPECT_EQ(LatencyText(test), "1.250 [1.125, 1.500]");
}

TEST(ExperimentText, SaysWhenAndOnWhatItRan) {
  EXPECT_THAT(Printed(Example()),
              EndsWith("2026-11-28T10:00:00Z by fovea-server 0.1.0 on 2 cores of AMD EPYC.\n"));
  const auto measured = nlohmann::json::parse(ExperimentJsonLine(Example()))["measured"];
  EXPECT_EQ(measured["processor"], "AMD EPYC");
  EXPECT_FALSE(measured.contains("busy")) << "nobody watched";
}

TEST(ExperimentText, SaysWhyItEnded) {
  Experiment experiment = Example();
  experiment.state = ExperimentState::kModelGone;
  experiment.reason = "shapes was unloaded\x1b[31m";
  EXPECT_THAT(Printed(experiment),
              HasSubstr("night: ended without its model after 1m15s: shapes was unloaded?[31m; all "
                        "traffic of shapes goes to the baseline\n"));
  experiment.state = ExperimentState::kExpired;
  EXPECT_THAT(Printed(experiment), HasSubstr("night: expired after"));
}

TEST(ExperimentJson, NamesInfinityAndLeavesOutWhatIsAbsent) {
  Experiment experiment = Example();
  experiment.arms[1].latency_ratio->upper = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(ExperimentJsonLine(experiment));
  EXPECT_EQ(json["arms"][1]["name"], "shapes_knn:knn:k=0.5");
  EXPECT_EQ(json["arms"][1]["latency_ratio"]["upper"], "Infinity");
  EXPECT_EQ(json["arms"][1]["disagreement"]["verdict"], "HIGHER");
  EXPECT_FALSE(json["arms"][0].contains("disagreement"));
}

}  // namespace
}  // namespace fovea::client
