#include "client/cpp/cli/explanation_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client/cli/example_explanation.h"

namespace fovea::client {
namespace {

using Json = nlohmann::json;

// Over other weights, with a picture, and a number that is none.
Explanation Example() {
  Explanation explanation = ExampleExplanation();
  explanation.weights_of_attention = "dense";
  explanation.maps[0].values[1] = std::numeric_limits<float>::quiet_NaN();
  explanation.maps[0].png = "bytes";
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
