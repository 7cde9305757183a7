// An explanation as a server tells it, for tests of how it is printed.
#pragma once

#include "client/cpp/explanation.h"

namespace fovea::client {

inline Explanation ExampleExplanation() {
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

}  // namespace fovea::client
