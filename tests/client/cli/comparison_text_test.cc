#include "client/cpp/cli/comparison_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "client/cpp/cli/comparison_json.h"
#include "client/cpp/cli/comparison_report.h"
#include "client/cpp/cli/console.h"

namespace fovea::client {
namespace {

using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Dense attention against k-NN over the same weights, which is slower by half.
Comparison Example() {
  Comparison comparison{.rounds = 200, .threads = 2, .device = "CPU"};
  comparison.control = {
      .ms = {10, 10, 10}, .ratio = Estimate{1, 0.99, 1.01, 50}, .verdict = Verdict::kEquivalent};
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
  EXPECT_THAT(ComparisonReport(comparison, {"a.jpg"}, "fovea compare"),
              ContainsRegex(">3\\.00 ms</td><td>-</td>"));
}

TEST(ComparisonText, WhereThereIsNoAttentionItsTimeIsNoZero) {
  Comparison comparison = Example();
  comparison.variants[1].attention_ms.reset();
  EXPECT_THAT(Printed(comparison),
              ContainsRegex("\nCOST .* ATTENTION ms .*\ndense +[0-9. ]+ 3\\.00 .*"
                            "\nknn:k=9 +0\\.00 +0\\.00 +- +0\\.00 "));
  EXPECT_THAT(ComparisonReport(comparison, {"a.jpg"}, "fovea compare"),
              HasSubstr("<td>-</td><td>1.25</td>"));
  EXPECT_THAT(ComparisonCsv(comparison, "fovea compare"),
              ContainsRegex("attention_ms_q1,attention_ms_median,attention_ms_q3"));
  EXPECT_THAT(ComparisonJson(comparison, {"a.jpg"}, "fovea compare"),
              ContainsRegex("\"attention_ms\""));
  comparison.variants[0].attention_ms.reset();
  EXPECT_THAT(ComparisonJson(comparison, {"a.jpg"}, "fovea compare"),
              Not(HasSubstr("attention_ms")));
}

TEST(ComparisonText, AttentionThatContradictsComputeIsLeftOutWithAWord) {
  Comparison comparison = Example();
  comparison.variants[1].attention_ms.reset();
  comparison.variants[1].attention_left_out = true;
  const std::string note =
      "The attention time of knn:k=9 is left out: it would exceed compute, of which it is a part.";
  EXPECT_THAT(ComparisonNotes(comparison), Contains(note));
  EXPECT_THAT(Printed(comparison), HasSubstr("\n" + note + "\n"));
  EXPECT_THAT(ComparisonReport(comparison, {"a.jpg"}, "fovea compare"), HasSubstr(note));
  EXPECT_THAT(ComparisonJson(comparison, {"a.jpg"}, "fovea compare"),
              HasSubstr("\"attention_left_out\": true"));
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
                          "knn:k=9 is undecided: the control is off, so something else than "
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

// Lines of CSV, each with its fields; none of them has a comma or quotes.
std::vector<std::vector<std::string>> Rows(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  for (const absl::string_view line : absl::StrSplit(csv, "\r\n", absl::SkipEmpty())) {
    rows.push_back(absl::StrSplit(line, ','));
  }
  return rows;
}

TEST(ComparisonCsv, NamesEachColumnAsTheFramesDo) {
  Comparison comparison = Example();
  comparison.measured = {.at = "2026-03-01T14:05:09Z",
                         .by = "fovea-server 1.2.0",
                         .processor = "A processor",
                         .cores = 2,
                         .other_cores = 0.5};
  std::get<ClassAgreement>(comparison.variants[1].agreement).kl_divergence =
      std::numeric_limits<double>::infinity();
  const auto rows = Rows(ComparisonCsv(comparison, "fovea compare a.jpg"));
  ASSERT_EQ(rows.size(), 3u);
  std::map<std::string, std::pair<std::string, std::string>> fields;
  for (size_t i = 0; i < rows[0].size(); ++i) fields[rows[0][i]] = {rows[1].at(i), rows[2].at(i)};
  for (const auto& [column, dense, knn] : std::initializer_list<std::array<const char*, 3>>{
           {"model_name", "shapes", "shapes"},
           {"attention", "dense", "knn:k=9"},
           {"compute_ms_q1", "9.5", "15.0"},
           {"compute_ms_median", "10.0", "15.0"},
           {"compute_ratio_lower", "", "1.48"},
           {"compute_verdict", "VERDICT_UNSPECIFIED", "SLOWER"},
           {"classes_kl_divergence", "", "Infinity"},
           {"control_ratio_upper", "1.01", "1.01"},
           {"rounds", "200", "200"},
           {"measured_at", "2026-03-01T14:05:09Z", "2026-03-01T14:05:09Z"},
           {"measured_by", "fovea-server 1.2.0", "fovea-server 1.2.0"},
           {"measured_processor", "A processor", "A processor"},
           {"measured_other_cores", "0.5", "0.5"},
           {"command", "fovea compare a.jpg", "fovea compare a.jpg"}}) {
    ASSERT_TRUE(fields.contains(column)) << column;
    EXPECT_EQ(fields[column].first, dense) << column;
    EXPECT_EQ(fields[column].second, knn) << column;
  }
}

TEST(ComparisonCsv, QuotesWhatWouldBeFieldsOfItsOwn) {
  Comparison comparison = Example();
  comparison.variants[1].model.name = "a, \"b\"";
  EXPECT_THAT(ComparisonCsv(comparison, "fovea"), HasSubstr("\r\n\"a, \"\"b\"\"\",1,"));
}

// CSV injection (CWE-1236).
TEST(ComparisonCsv, SpreadsheetsRunNoTextAsAFormula) {
  Comparison comparison = Example();
  for (const auto& [name, field] :
       {std::pair("=1+1", "'=1+1"), std::pair("+1", "'+1"), std::pair("-1", "'-1"),
        std::pair("@SUM(A1)", "'@SUM(A1)"), std::pair("\t=1", "'\t=1"),
        std::pair("\r=1", "\"'\r=1\""), std::pair("=\"a\"", "\"'=\"\"a\"\"\""),
        std::pair("1=1", "1=1")}) {
    comparison.variants[1].model.name = name;
    EXPECT_THAT(ComparisonCsv(comparison, "fovea"), HasSubstr("\r\n" + std::string(field) + ",1,"));
  }
  comparison.variants[1].compute.ratio->lower = -0.5;  // a number
  EXPECT_THAT(ComparisonCsv(comparison, "fovea"), HasSubstr(",-0.5,"));
}

TEST(Provenance, StandsInEveryForm) {
  Comparison comparison = Example();
  comparison.measured = {.at = "2026-03-01T14:05:09Z",
                         .by = "fovea-server 1.2.0",
                         .processor = "A processor",
                         .cores = 2,
                         .other_cores = 1.94};
  const std::string where =
      "Measured 2026-03-01T14:05:09Z by fovea-server 1.2.0 on 2 cores of A processor.";
  const std::string busy = "The machine was busy: other programs used 1.9 of 2 cores";
  EXPECT_THAT(Printed(comparison), HasSubstr(where));
  EXPECT_THAT(Printed(comparison), Not(HasSubstr(busy)));
  comparison.measured.busy = true;
  EXPECT_THAT(Printed(comparison), HasSubstr(busy));
  const std::string page = ComparisonReport(comparison, {"a.jpg"}, "fovea compare <a>");
  for (const std::string& text : {where, busy, std::string("<pre>fovea compare &lt;a&gt;</pre>")}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  const auto json = nlohmann::json::parse(ComparisonJson(comparison, {"a.jpg"}, "fovea compare"));
  EXPECT_EQ(json["measured"], nlohmann::json::parse(R"({"at": "2026-03-01T14:05:09Z",
      "by": "fovea-server 1.2.0", "processor": "A processor", "cores": 2, "other_cores": 1.94,
      "busy": true})"));
  EXPECT_EQ(json["command"], "fovea compare");
}

TEST(CommandText, IsForAShellAndKeepsKeysToItself) {
  EXPECT_EQ(CommandText({"compare", "a b.jpg", "it's", "--model", "shapes", "knn:k=9", ""}),
            "fovea compare 'a b.jpg' 'it'\\''s' --model shapes knn:k=9 ''");
  EXPECT_EQ(CommandText({"--api-key", "secret", "models"}), "fovea --api-key ... models");
  EXPECT_EQ(CommandText({"--api-key=secret", "models"}), "fovea --api-key=... models");
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
  const auto json = nlohmann::json::parse(ComparisonJson(comparison, {"a.jpg"}, "fovea compare"));
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
  const std::string page = ComparisonReport(comparison, {"a.jpg"}, "fovea compare");
  EXPECT_THAT(page, HasSubstr("1.500, slower"));
  EXPECT_THAT(page, HasSubstr("5.00 (4.90 to 5.10)"));
  EXPECT_THAT(page, HasSubstr("6.00 + 22.00 MiB"));
  EXPECT_THAT(page, HasSubstr("not fine-tuned"));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;&amp;&quot;&#39;?"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

}  // namespace
}  // namespace fovea::client
