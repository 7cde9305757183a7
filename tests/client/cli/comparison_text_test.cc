#include "client/cpp/cli/comparison_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cpp/cli/comparison_json.h"
#include "client/cpp/cli/comparison_report.h"

namespace fovea::client {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Dense attention against k-NN over the same weights, which is slower by half.
Comparison Example() {
  Comparison comparison{.rounds = 200, .threads = 2, .device = "CPU"};
  comparison.control = {
      .ms = {10, 10, 10}, .ratio = Estimate{1, 0.99, 1.01, 50}, .verdict = Verdict::kNoDifference};
  ComparedVariant dense{.model = {"shapes", "1"}, .attention = "dense"};
  dense.compute.ms = {9.5, 10, 10.25};
  dense.attention_ms = Quartiles{3, 3, 3};
  dense.images_per_second = 100;
  dense.peak_bytes = 6 << 20;
  dense.weight_bytes = 22 << 20;
  dense.multiply_adds = 1'250'000'000;
  dense.answers = {{.label = "circle", .confidence = 0.75}};
  ComparedVariant knn = dense;
  knn.attention = "knn:k=9";
  knn.weights_of_attention = "dense";
  knn.compute = {.ms = {15, 15, 15},
                 .ratio = Estimate{1.5, 1.48, 1.53, 50},
                 .difference_ms = Estimate{5, 4.9, 5.1, 50},
                 .verdict = Verdict::kSlower};
  knn.agreement = ClassAgreement{.images = 1,
                                 .same_top1 = 1,
                                 .top5_overlap = 0.8,
                                 .kl_divergence = 0.0312,
                                 .max_confidence_difference = 0.25};
  knn.feature_cosine = 0.9;
  comparison.variants = {dense, knn};
  return comparison;
}

std::string Printed(const Comparison& comparison,
                    const std::vector<std::string>& images = {"a.jpg"}) {
  std::ostringstream out;
  PrintComparison(comparison, images, out, /*colour=*/false);
  return out.str();
}

TEST(ComparisonText, HasTimesCostsAndAnswers) {
  EXPECT_THAT(
      Printed(Example()),
      HasSubstr("a.jpg, shapes/1 on 2 threads of CPU, batches of 1, 200 rounds there and back\n\n"
                "COMPUTE      MEDIAN ms    QUARTILES  RATIO  95 % INTERVAL  IMAGES/s  VERDICT\n"
                "dense            10.00   9.50-10.25      -              -     100.0  baseline\n"
                "dense again      10.00  10.00-10.00  1.000    0.990-1.010            control\n"
                "knn:k=9          15.00  15.00-15.00  1.500    1.480-1.530     100.0  slower\n\n"));
  EXPECT_THAT(Printed(Example()),
              HasSubstr("ANSWERS  FIRST          SAME TOP-1  TOP-5 OVERLAP  KL, NATS  LARGEST "
                        "DIFFERENCE  FEATURES\n"
                        "dense    circle 75.0 %\n"
                        "knn:k=9  circle 75.0 %      1 of 1         80.0 %    0.0312          "
                        "    25.0 %    0.9000\n"));
}

TEST(ComparisonText, MultiplyAddsThatWereNotCountedAreNoZero) {
  Comparison comparison = Example();
  comparison.variants[1].multiply_adds = 0;
  EXPECT_THAT(Printed(comparison), ContainsRegex("\ndense .* 22\\.00 +1\\.25\n"
                                                 "knn:k=9 .* 22\\.00 +-\n"));
  EXPECT_THAT(ComparisonReport(comparison, {"a.jpg"}), ContainsRegex(">3\\.00 ms</td><td>-</td>"));
}

TEST(ComparisonText, WhereThereIsNoAttentionItsTimeIsNoZero) {
  Comparison comparison = Example();
  comparison.variants[1].attention_ms.reset();
  EXPECT_THAT(Printed(comparison),
              ContainsRegex("\nCOST .* ATTENTION ms .*\ndense +[0-9. ]+ 3\\.00 .*"
                            "\nknn:k=9 +0\\.00 +0\\.00 +- +0\\.00 "));
  EXPECT_THAT(ComparisonReport(comparison, {"a.jpg"}), HasSubstr("<td>-</td><td>1.25</td>"));
  EXPECT_THAT(ComparisonCsv(comparison, /*dataset=*/nullptr), ContainsRegex("slower,0,0,0,,100,"));
  EXPECT_THAT(ComparisonJson(comparison, {"a.jpg"}, /*dataset=*/nullptr),
              ContainsRegex("\"attention_ms\""));
  comparison.variants[0].attention_ms.reset();
  EXPECT_THAT(ComparisonJson(comparison, {"a.jpg"}, /*dataset=*/nullptr),
              Not(HasSubstr("attention_ms")));
}

TEST(ComparisonText, SaysWhatIsToBeKnownOfVariants) {
  Comparison comparison = Example();
  EXPECT_THAT(ComparisonNotes(comparison),
              ElementsAre("knn:k=9: same weights as dense, not fine-tuned."));
  comparison.variants[1].weights_of_attention.clear();
  EXPECT_THAT(ComparisonNotes(comparison), IsEmpty());
  comparison.variants[0].untrained = true;
  comparison.variants[1].compute.verdict = comparison.control.verdict = Verdict::kControlOff;
  EXPECT_THAT(ComparisonNotes(comparison),
              ElementsAre("The weights of dense are random numbers: its answers mean nothing.",
                          "No verdict on knn:k=9: the control is off, so something else than "
                          "the variants moved the times."));
  EXPECT_THAT(Printed(comparison), HasSubstr("control: off\n"));
}

TEST(ComparisonText, NamesModelsWhereTheyDiffer) {
  Comparison comparison = Example();
  EXPECT_EQ(VariantText(comparison.variants[1], comparison), "knn:k=9");
  comparison.variants[0].model.name = "other";
  EXPECT_EQ(VariantText(comparison.variants[1], comparison), "shapes/1, knn:k=9");
}

TEST(ComparisonText, HasTheColumnsOfItsTask) {
  Comparison comparison = Example();
  comparison.variants[1].agreement =
      ObjectAgreement{.baseline_objects = 4, .objects = 5, .matched = 3, .mean_box_iou = 0.9};
  EXPECT_THAT(Printed(comparison), HasSubstr("5 of 4"));
  comparison.variants[0].answers = {BriefAnswer{}};
  EXPECT_THAT(Printed(comparison), HasSubstr("dense    nothing"));
  comparison.variants[1].agreement = MapAgreement{.same_pixels = 0.995, .mean_iou = 0.75};
  EXPECT_THAT(Printed(comparison), HasSubstr("SAME PIXELS  MEAN IOU"));
  EXPECT_THAT(Printed(comparison), HasSubstr("99.5 %     0.750"));
}

TEST(ComparisonText, ARowOfCsvHasAsManyFieldsAsItsHead) {
  Comparison comparison = Example();
  comparison.variants[1].model.name = "a, \"b\"";
  std::get<ClassAgreement>(comparison.variants[1].agreement).kl_divergence =
      std::numeric_limits<double>::infinity();
  const std::string csv = ComparisonCsv(comparison);
  std::vector<size_t> commas;
  bool quoted = false;
  commas.push_back(0);
  for (const char c : csv) {
    quoted ^= c == '"';
    if (c == ',' && !quoted) ++commas.back();
    if (c == '\n') commas.push_back(0);
  }
  EXPECT_THAT(commas, ElementsAre(commas[0], commas[0], commas[0], 0));
  EXPECT_THAT(csv, HasSubstr("\r\n\"a, \"\"b\"\"\",1,"));
  EXPECT_THAT(csv, Not(HasSubstr("inf")));
}

TEST(ComparisonJson, NamesInfinityAndLeavesOutWhatIsAbsent) {
  Comparison comparison = Example();
  comparison.images = {{.height = 30, .width = 40}};
  std::get<ClassAgreement>(comparison.variants[1].agreement).kl_divergence =
      std::numeric_limits<double>::infinity();
  comparison.variants[1].compute.ratio->upper = std::numeric_limits<double>::infinity();
  comparison.variants.push_back(comparison.variants[1]);
  comparison.variants[2].agreement = ObjectAgreement{.objects = 3};
  comparison.variants.push_back(comparison.variants[1]);
  comparison.variants[3].agreement = ObjectAgreement{.mean_mask_iou = 0.5};
  const auto json = nlohmann::json::parse(ComparisonJson(comparison, {"a.jpg"}));
  const auto& variants = json["variants"];
  EXPECT_EQ(variants[1]["classes"]["kl_divergence"], "Infinity");
  EXPECT_EQ(variants[1]["compute"]["ratio"]["upper"], "Infinity");
  EXPECT_EQ(variants[1]["weights_of_attention"], "dense");
  for (const char* absent : {"weights_of_attention", "feature_cosine", "classes", "objects"}) {
    EXPECT_FALSE(variants[0].contains(absent)) << absent;
  }
  EXPECT_FALSE(variants[2]["objects"].contains("mean_mask_iou"));
  EXPECT_EQ(variants[3]["objects"]["mean_mask_iou"], 0.5);
  EXPECT_EQ(json["images"][0], (nlohmann::json{{"file", "a.jpg"}, {"height", 30}, {"width", 40}}));
  EXPECT_FALSE(json.contains("dataset"));
}

TEST(ComparisonReport, ShowsWhatTheTextShows) {
  Comparison comparison = Example();
  comparison.variants[0].answers[0].label = "<script>&\"'\x01";
  const std::string page = ComparisonReport(comparison, {"a.jpg"});
  EXPECT_THAT(page, HasSubstr("1.500, slower"));
  EXPECT_THAT(page, HasSubstr("5.00 (4.90 to 5.10)"));
  EXPECT_THAT(page, HasSubstr("6.00 + 22.00 MiB"));
  EXPECT_THAT(page, HasSubstr("not fine-tuned"));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;&amp;&quot;&#39;?"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

}  // namespace
}  // namespace fovea::client
