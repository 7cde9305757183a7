#include "client/cpp/cli/explanation_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/client/cli/example_explanation.h"

namespace fovea::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Printed(const Explanation& explanation, const std::vector<std::string>& files = {}) {
  std::ostringstream out;
  PrintExplanation(explanation, files, out, /*colour=*/false);
  return out.str();
}

TEST(ExplanationTextTest, PicturesAreNamedByWhatTheyShow) {
  const Explanation explanation = ExampleExplanation();
  EXPECT_EQ(PictureName(explanation.maps[0]), "maps_03_blocks.3_head1.png");
  EXPECT_EQ(PictureName(explanation.maps[1]), "gradient_rollout.png");
}

TEST(ExplanationTextTest, PicturesOfOtherImagesModelsAttentionsAndPlacesHaveOtherNames) {
  const Explanation explanation = ExampleExplanation();
  EXPECT_EQ(PicturePrefix(explanation, "in/heart.jpg", ""), "heart_vit_knn_k_9_");
  EXPECT_EQ(PicturePrefix(explanation, "-", "120,80"), "stdin_vit_knn_k_9_at_120_80_");
}

TEST(ExplanationTextTest, NoNameOfTheServersLeadsOutOfTheFolder) {
  EXPECT_EQ(PicturePrefix({.model = {.name = "../a"}, .attention = std::string(300, '/')}, "x", ""),
            "x_.._a_" + std::string(60, '_') + "_");
  EXPECT_EQ(PictureName({.layer = "../../etc/x y", .layer_number = 0}),
            "maps_00_.._.._etc_x_y.png");
}

TEST(ExplanationTextTest, TheTableHasTheFourMeasuresOfEachLayer) {
  const std::string text = Printed(ExampleExplanation(), {"seen/rollout.png"});
  EXPECT_THAT(text, HasSubstr("vit/2: deit_tiny with knn:k=9\nclass: cat, 62.5 %\n"));
  EXPECT_THAT(text, HasSubstr("blocks.0   0.500          0.0125            1.500      2.250"
                              "          3.50\n"));
  EXPECT_THAT(text, HasSubstr("blocks.1   0.750               -"));
  EXPECT_THAT(text, HasSubstr("\nseen/rollout.png\n"));
}

TEST(ExplanationTextTest, ItSaysWhatTheWeightsWereTrainedFor) {
  Explanation explanation = ExampleExplanation();
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
