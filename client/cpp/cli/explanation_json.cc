#include "client/cpp/cli/explanation_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "client/cpp/cli/explanation_text.h"
#include "client/cpp/cli/measured_json.h"

namespace fovea::client {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const ExplainedMap& map) {
  Json values = Json::array();
  for (const float value : map.values) values.push_back(NumberJson(double{value}));
  Json json = {{"method", absl::AsciiStrToUpper(MethodText(map.method))}};
  if (!map.layer.empty()) json["layer"] = map.layer;
  if (map.layer_number) json["layer_number"] = *map.layer_number;
  if (map.head) json["head"] = *map.head;
  json.update({{"rows", map.rows}, {"columns", map.columns}, {"values", std::move(values)}});
  return json;
}

Json ToJson(const MeasuredLayer& layer) {
  Json nonlocality = Json::array();
  for (const double head : layer.nonlocality) nonlocality.push_back(NumberJson(head));
  Json json = {{"layer", layer.layer}, {"cosine_similarity", NumberJson(layer.cosine_similarity)}};
  if (layer.attention_standard_deviation) {
    json["attention_standard_deviation"] = NumberJson(*layer.attention_standard_deviation);
  }
  json.update({{"attention_norm_ratio", NumberJson(layer.attention_norm_ratio)},
               {"mlp_norm_ratio", NumberJson(layer.mlp_norm_ratio)},
               {"nonlocality", std::move(nonlocality)}});
  return json;
}

}  // namespace

std::string ExplanationJson(const Explanation& explanation, const std::string& image,
                            const std::vector<std::string>& files) {
  Json json = {{"file", image}};
  json.update(VariantJson(explanation.model, explanation.backbone, explanation.attention,
                          explanation.weights_of_attention, explanation.untrained));
  json.update({{"height", explanation.height}, {"width", explanation.width}});
  if (explanation.target) {
    json.update({{"target_class", explanation.target->index},
                 {"target_label", explanation.target->label},
                 {"target_probability", NumberJson(double{explanation.target->confidence})}});
  }
  Json maps = Json::array();
  for (size_t i = 0; i < explanation.maps.size(); ++i) {
    Json& map = maps.emplace_back(ToJson(explanation.maps[i]));
    if (i < files.size()) map["png_file"] = files[i];
  }
  Json measures = Json::array();
  for (const MeasuredLayer& layer : explanation.measures) measures.push_back(ToJson(layer));
  json.update({{"maps", std::move(maps)}, {"measures", std::move(measures)}});
  if (files.size() > explanation.maps.size()) {
    json["measures_plot_file"] = files[explanation.maps.size()];
  }
  // File names need not be UTF-8, JSON must be.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fovea::client
