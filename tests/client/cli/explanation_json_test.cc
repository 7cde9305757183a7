#include "client/cpp/cli/explanation_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fovea::client {
namespace {

using Json = nlohmann::json;

Explanation Example() {
  Explanation explanation{.model = {"vit", "2"},
                          .backbone = "deit_tiny",
                          .attention = "knn:k=9",
                          .weights_of_attention = "dense",
                          .height = 48,
                          .width = 64};
  explanation.target = ClassScore{.index = 4, .label = "cat", .confidence = 0.625f};
  explanation.maps = {
      {.layer = "blocks.3",
       .layer_number = 3,
       .head = 1,
       .rows = 1,
       .columns = 2,
       .values = {0.25, std::numeric_limits<float>::quiet_NaN()},
       .png = "bytes"},
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

Json Written(const Explanation& explanation, const std::vector<std::string>& files = {}) {
  return Json::parse(ExplanationJson(explanation, "cat.jpg", files));
}

TEST(ExplanationJson, HasEveryNumberUnderTheProtosNames) {
  const Json json = Written(Example());
  EXPECT_EQ(json["file"], "cat.jpg");
  EXPECT_EQ(json["model_name"], "vit");
  EXPECT_EQ(json["model_version"], "2");
  EXPECT_EQ(json["weights_of_attention"], "dense");
  EXPECT_EQ(json["untrained"], false);
  EXPECT_EQ(json["height"], 48);
  EXPECT_EQ(json["width"], 64);
  EXPECT_EQ(json["target_class"], 4);
  EXPECT_EQ(json["target_label"], "cat");
  EXPECT_EQ(json["target_probability"], 0.625);
  EXPECT_EQ(json["maps"][0], Json({{"method", "MAPS"},
                                   {"layer", "blocks.3"},
                                   {"layer_number", 3},
                                   {"head", 1},
                                   {"rows", 1},
                                   {"columns", 2},
                                   {"values", {0.25, "NaN"}}}));
  EXPECT_EQ(json["measures"][0], Json({{"layer", "blocks.0"},
                                       {"cosine_similarity", 0.5},
                                       {"attention_standard_deviation", 0.0125},
                                       {"attention_norm_ratio", 1.5},
                                       {"mlp_norm_ratio", 2.25},
                                       {"nonlocality", {3, 4}}}));
}

TEST(ExplanationJson, LeavesOutWhatIsAbsent) {
  Explanation explanation = Example();
  explanation.target.reset();
  explanation.weights_of_attention.clear();
  const Json json = Written(explanation);
  for (const char* absent : {"target_class", "target_label", "target_probability",
                             "weights_of_attention", "measures_plot_file"}) {
    EXPECT_FALSE(json.contains(absent)) << absent;
  }
  EXPECT_EQ(json["maps"][1],
            Json({{"method", "GRADIENT_ROLLOUT"}, {"rows", 1}, {"columns", 1}, {"values", {1}}}));
  EXPECT_FALSE(json["measures"][1].contains("attention_standard_deviation"));
  explanation.maps.clear();
  EXPECT_EQ(Written(explanation)["maps"], Json::array());
}

TEST(ExplanationJson, SaysWhereEachPictureIs) {
  Json json = Written(Example(), {"a.png", "b.png"});
  EXPECT_EQ(json["maps"][0]["png_file"], "a.png");
  EXPECT_EQ(json["maps"][1]["png_file"], "b.png");
  EXPECT_FALSE(json.contains("measures_plot_file"));
  json = Written(Example(), {"a.png", "b.png", "measures.png"});
  EXPECT_EQ(json["maps"][1]["png_file"], "b.png");
  EXPECT_EQ(json["measures_plot_file"], "measures.png");
}

}  // namespace
}  // namespace fovea::client
