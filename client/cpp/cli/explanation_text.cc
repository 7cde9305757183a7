#include "client/cpp/cli/explanation_text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "client/cpp/cli/table.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

using Json = nlohmann::ordered_json;

// Names come from the server: nothing in them leads out of the folder.
std::string FileText(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
    name.push_back(plain ? c : '_');
  }
  return name;
}

double Mean(const std::vector<double>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
}

// What is no finite number is null.
Json NumberOf(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json ToJson(const MeasuredLayer& layer) {
  Json row = {{"layer", layer.layer},
              {"cosine_similarity", NumberOf(layer.cosine_similarity)},
              {"attention_standard_deviation", nullptr},
              {"attention_norm_ratio", NumberOf(layer.attention_norm_ratio)},
              {"mlp_norm_ratio", NumberOf(layer.mlp_norm_ratio)},
              {"nonlocality", Json::array()}};
  if (layer.attention_standard_deviation) {
    row["attention_standard_deviation"] = NumberOf(*layer.attention_standard_deviation);
  }
  for (const double head : layer.nonlocality) row["nonlocality"].push_back(NumberOf(head));
  return row;
}

Json ToJson(const ExplainedMap& map) {
  Json row = {{"method", MethodText(map.method)},
              {"layer", nullptr},
              {"layer_number", nullptr},
              {"head", nullptr},
              {"rows", map.rows},
              {"columns", map.columns},
              {"values", Json::array()}};
  if (!map.layer.empty()) row["layer"] = map.layer;
  if (map.layer_number) row["layer_number"] = *map.layer_number;
  if (map.head) row["head"] = *map.head;
  for (const float value : map.values) row["values"].push_back(NumberOf(double{value}));
  return row;
}

void PrintMeasures(const std::vector<MeasuredLayer>& layers, std::ostream& out, bool colour) {
  using Align = Table::Align;
  Table table({{"LAYER"},
               {"COSINE", Align::kRight},
               {"STD OF WEIGHTS", Align::kRight},
               {"ATTENTION/INPUT", Align::kRight},
               {"MLP/INPUT", Align::kRight},
               {"NON-LOCALITY", Align::kRight}});
  for (const MeasuredLayer& layer : layers) {
    table.AddRow(
        {layer.layer, Fixed(layer.cosine_similarity, 3),
         layer.attention_standard_deviation ? Fixed(*layer.attention_standard_deviation, 4) : "-",
         Fixed(layer.attention_norm_ratio, 3), Fixed(layer.mlp_norm_ratio, 3),
         layer.nonlocality.empty() ? "-" : Fixed(Mean(layer.nonlocality), 2)});
  }
  out << '\n';
  table.Print(out, colour);
  out << "\ncosine: between the tokens that leave the layer; std of weights: of each query's over\n"
         "its keys; attention/input, MLP/input: the norm of what the branch adds to that of what\n"
         "it is added to; non-locality: how far a patch looks, in patches, mean over the heads\n";
}

}  // namespace

std::string MethodText(ExplainMethod method) {
  switch (method) {
    case ExplainMethod::kMaps:
      return "maps";
    case ExplainMethod::kRollout:
      return "rollout";
    case ExplainMethod::kAttribution:
      return "attribution";
    case ExplainMethod::kGradientRollout:
      return "gradient_rollout";
    case ExplainMethod::kMeasures:
      return "measures";
  }
  return "";
}

std::string PictureName(const ExplainedMap& map) {
  std::string name = MethodText(map.method);
  if (map.layer_number) {
    char number[16];
    std::snprintf(number, sizeof(number), "_%02d", *map.layer_number);
    name += number;
  }
  if (!map.layer.empty()) name += "_" + FileText(map.layer);
  if (map.head) name += "_head" + std::to_string(*map.head);
  return name + ".png";
}

void PrintExplanation(const Explanation& explanation, const std::vector<std::string>& files,
                      std::ostream& out, bool colour) {
  out << Printable(ModelText(explanation.model)) << ": " << Printable(explanation.backbone)
      << " with " << Printable(explanation.attention) << '\n';
  if (!explanation.weights_of_attention.empty()) {
    out << "same weights, not fine-tuned: they are served with "
        << Printable(explanation.weights_of_attention) << '\n';
  }
  if (explanation.untrained)
    out << "its weights are random: nothing that is found means anything\n";
  if (explanation.target) {
    out << "class: " << Printable(LabelOf(*explanation.target)) << ", "
        << Percent(double{explanation.target->confidence}) << '\n';
  }
  if (!explanation.measures.empty()) PrintMeasures(explanation.measures, out, colour);
  if (!files.empty()) out << '\n';
  for (const std::string& file : files) out << Printable(file) << '\n';
}

std::string ExplanationJson(const Explanation& explanation, const std::string& image,
                            const std::vector<std::string>& files) {
  Json document = {{"file", Printable(image)},
                   {"model", ModelText(explanation.model)},
                   {"backbone", explanation.backbone},
                   {"attention", explanation.attention},
                   {"weights_of_attention", nullptr},
                   {"untrained", explanation.untrained},
                   {"height", explanation.height},
                   {"width", explanation.width},
                   {"target", nullptr},
                   {"maps", Json::array()},
                   {"measures", Json::array()}};
  if (!explanation.weights_of_attention.empty()) {
    document["weights_of_attention"] = explanation.weights_of_attention;
  }
  if (explanation.target) {
    document["target"] = {{"class", explanation.target->index},
                          {"label", explanation.target->label},
                          {"probability", NumberOf(double{explanation.target->confidence})}};
  }
  for (size_t i = 0; i < explanation.maps.size(); ++i) {
    Json map = ToJson(explanation.maps[i]);
    map["picture"] = i < files.size() ? Json(Printable(files[i])) : Json();
    document["maps"].push_back(std::move(map));
  }
  for (const MeasuredLayer& layer : explanation.measures) {
    document["measures"].push_back(ToJson(layer));
  }
  return document.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fovea::client
