#include "client/cpp/cli/explanation_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace fovea::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Explanation Example() {
  Explanation explanation{.model = {"vit", "2"},
                          .backbone = "deit_tiny",
                          .attention = "knn:k=9",
                          .height = 48,
                          .width = 64};
  explanation.target = ClassScore{.index = 4, .label = "cat", .confidence = 0.625f};
  explanation.maps = {
      {.layer = "blocks.3",
       .layer_number = 3,
       .head = 1,
       .rows = 1,
       .columns = 2,
       .values = {0.25, 0.75}},
      {.method = ExplainMethod::kGradientRollout, .rows = 1, .columns = 1, .values = {1}}};
  explanation.measures = {{.layer = "blocks.0",
                           .cosine_similarity = 0.5,
                           .attention_standard_deviation = 0.0125,
                           .attention_norm_ratio = 1.5,
                           .mlp_norm_ratio = 2.25,
                           .nonlocality = {3, 4}},
                          {.layer = "blocks.1", .cosine_similarity = 0.75}};
  return explanation;
}

std::string Printed(const Explanation& explanation, const std::vector<std::string>& files = {}) {
  std::ostringstream out;
  PrintExplanation(explanation, files, out, /*colour=*/false);
  return out.str();
}

TEST(ExplanationTextTest, PicturesAreNamedByWhatTheyShow) {
  const Explanation explanation = Example();
  EXPECT_EQ(PictureName(explanation.maps[0]), "maps_03_blocks.3_head1.png");
  EXPECT_EQ(PictureName(explanation.maps[1]), "gradient_rollout.png");
}

TEST(ExplanationTextTest, NoNameOfTheServersLeadsOutOfTheFolder) {
  EXPECT_EQ(PictureName({.layer = "../../etc/x y", .layer_number = 0}),
            "maps_00_.._.._etc_x_y.png");
}

TEST(ExplanationTextTest, TheTableHasTheFourMeasuresOfEachLayer) {
  const std::string text = Printed(Example(), {"seen/rollout.png"});
  EXPECT_THAT(text, HasSubstr("vit/2: deit_tiny with knn:k=9\nclass: cat, 62.5 %\n"));
  EXPECT_THAT(text, HasSubstr("blocks.0   0.500          0.0125            1.500      2.250"
                              "          3.50\n"));
  EXPECT_THAT(text, HasSubstr("blocks.1   0.750               -"));
  EXPECT_THAT(text, HasSubstr("\nseen/rollout.png\n"));
}

TEST(ExplanationTextTest, ItSaysWhatTheWeightsWereTrainedFor) {
  Explanation explanation = Example();
  EXPECT_THAT(Printed(explanation), Not(HasSubstr("not fine-tuned")));
  explanation.weights_of_attention = "dense";
  explanation.untrained = true;
  explanation.measures = {};
  const std::string text = Printed(explanation);
  EXPECT_THAT(text, HasSubstr("not fine-tuned: they are served with dense\n"));
  EXPECT_THAT(text, HasSubstr("its weights are random"));
  EXPECT_THAT(text, Not(HasSubstr("LAYER")));
}

}  // namespace
}  // namespace fovea::client
