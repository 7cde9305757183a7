#include "client/cpp/cli/explanation_text.h"

#include <cctype>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "client/cpp/cli/table.h"
#include "client/cpp/cli/text.h"

namespace fovea::client {
namespace {

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

std::string PicturePrefix(const Explanation& explanation, const std::string& image,
                          const std::string& place) {
  constexpr size_t kMaxPart = 60;  // of each, so that the name is no longer than file systems take
  const std::string stem = image == "-" ? "stdin" : std::filesystem::path(image).stem().string();
  std::string prefix;
  for (const std::string& part : {stem, explanation.model.name, explanation.attention}) {
    prefix += FileText(part).substr(0, kMaxPart) + "_";
  }
  if (!place.empty()) prefix += "at_" + FileText(place) + "_";
  return prefix;
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

}  // namespace fovea::client
