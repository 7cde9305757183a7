#include "client/cpp/cli/comparison_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace fovea::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ComparedTime Time(double median, const Estimate& ratio, Verdict verdict) {
  return {.ms = {median, median, median}, .ratio = ratio, .verdict = verdict};
}

// dense against knn, whose latency is slower by half, over one image.
Comparison Example() {
  const Estimate one{1, 0.99, 1.01, 50};
  Comparison comparison{.rounds = 200};
  comparison.control_latency = Time(10, one, Verdict::kNoDifference);
  comparison.control_compute = Time(4, one, Verdict::kNoDifference);
  ComparedModel dense{.model = {"dense"}, .attention = "self/dense"};
  dense.latency.ms = {10, 10, 10};
  dense.compute.ms = {4, 4, 4};
  dense.top1 = {{.index = 0, .label = "circle", .confidence = 0.75f}};
  dense.images_agreeing = 1;
  dense.max_confidence_difference = 0;
  ComparedModel knn = dense;
  knn.model = {"knn"};
  knn.latency = Time(15, {1.5, 1.48, 1.53, 50}, Verdict::kSlower);
  knn.compute = Time(4, one, Verdict::kNoDifference);
  comparison.models = {dense, knn};
  return comparison;
}

std::string Printed(const Comparison& comparison,
                    const std::vector<std::string>& images = {"a.jpg"}) {
  std::ostringstream out;
  PrintComparison(comparison, images, out, /*colour=*/false);
  return out.str();
}

TEST(ComparisonText, HasRatioIntervalControlRoundsAndVerdict) {
  EXPECT_THAT(Printed(Example()),
              HasSubstr("a.jpg, 200 rounds, each asking every model once in random order, one "
                        "request at a time\n\n"
                        "LATENCY      ATTENTION   MEDIAN ms    QUARTILES  RATIO  95 % INTERVAL  "
                        "VERDICT\n"
                        "dense        self/dense      10.00  10.00-10.00      -              -  "
                        "baseline\n"
                        "dense again  self/dense      10.00  10.00-10.00  1.000    0.990-1.010  "
                        "control\n"
                        "knn          self/dense      15.00  15.00-15.00  1.500    1.480-1.530  "
                        "slower\n"));
  EXPECT_THAT(Printed(Example()), Not(HasSubstr("No verdict")));
}

TEST(ComparisonText, SaysThatTheControlIsOffAndGivesNoVerdict) {
  Comparison comparison = Example();
  comparison.control_latency = Time(11, {1.1, 1.04, 1.17, 50}, Verdict::kControlOff);
  comparison.models[1].latency.verdict = Verdict::kControlOff;
  const std::string out = Printed(comparison);
  EXPECT_THAT(out, HasSubstr("1.100    1.040-1.170  control: off\n"));
  EXPECT_THAT(out, HasSubstr("1.500    1.480-1.530  none\n"));
  EXPECT_THAT(out, HasSubstr("No verdict on the latency of knn after 200 rounds: the control is "
                             "off, so something else than the models moved the times.\n"));
  EXPECT_THAT(out, Not(HasSubstr("on the compute of")));
}

TEST(ComparisonText, SaysOfOneImageWhatIsInItAndOfSeveralHowManyAreSeenAlike) {
  Comparison comparison = Example();
  EXPECT_THAT(Printed(comparison), HasSubstr("TOP-1   CONFIDENCE  SAME TOP-1"));
  EXPECT_THAT(Printed(comparison), HasSubstr("circle      75.0 %  yes"));
  for (ComparedModel& model : comparison.models) {
    model.top1.push_back({.index = 1, .label = "star", .confidence = 0.5f});
  }
  const std::string out = Printed(comparison, {"a.jpg", "b.jpg"});
  EXPECT_THAT(out, Not(HasSubstr("circle")));
  EXPECT_THAT(out, HasSubstr("1 of 2"));
}

TEST(ComparisonText, OfABusyServerSaysThatItWasBusy) {
  Comparison comparison = Example();
  EXPECT_THAT(Printed(comparison), Not(HasSubstr("busy")));
  comparison.models[1].largest_batch = 3;
  EXPECT_THAT(Printed(comparison), HasSubstr("batches of up to 3 images"));
}

}  // namespace
}  // namespace fovea::client
