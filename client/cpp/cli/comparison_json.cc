#include "client/cpp/cli/comparison_json.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "client/cpp/cli/csv.h"
#include "client/cpp/cli/measured_json.h"

namespace fovea::client {
namespace {

using Json = nlohmann::ordered_json;

// Null: it has no name here.
const char* Token(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBaseline:
      return "VERDICT_UNSPECIFIED";
    case Verdict::kFaster:
      return "FASTER";
    case Verdict::kSlower:
      return "SLOWER";
    case Verdict::kEquivalent:
      return "EQUIVALENT";
    case Verdict::kUndecided:
      return "UNDECIDED";
    case Verdict::kFewRounds:
      return "FEW_ROUNDS";
    case Verdict::kUnsteady:
      return "UNSTEADY";
    case Verdict::kControlOff:
      return "CONTROL_OFF";
    case Verdict::kWide:
      return "WIDE";
    case Verdict::kUnknown:
      break;
  }
  return nullptr;
}

Json ToJson(const ComparedTime& time) {
  Json json = {{"ms", QuartilesJson(time.ms)}};
  if (time.ratio) json["ratio"] = EstimateJson(*time.ratio);
  if (time.difference_ms) json["difference_ms"] = EstimateJson(*time.difference_ms);
  if (const char* token = Token(time.verdict)) json["verdict"] = token;
  return json;
}

// What changes in a variant's answers, under the name of its kind.
struct AddAgreement {
  Json& row;

  void operator()(std::monostate) const {}
  void operator()(const ClassAgreement& classes) const {
    row["classes"] = {{"images", classes.images},
                      {"same_top1", classes.same_top1},
                      {"top5_overlap", classes.top5_overlap},
                      {"kl_divergence", NumberJson(classes.kl_divergence)},
                      {"max_confidence_difference", classes.max_confidence_difference}};
  }
  void operator()(const ObjectAgreement& objects) const {
    Json json = {{"baseline_objects", objects.baseline_objects},
                 {"objects", objects.objects},
                 {"matched", objects.matched},
                 {"mean_box_iou", objects.mean_box_iou}};
    if (objects.mean_mask_iou) json["mean_mask_iou"] = *objects.mean_mask_iou;
    json["mean_score_difference"] = objects.mean_score_difference;
    row["objects"] = std::move(json);
  }
  void operator()(const MapAgreement& maps) const {
    row["maps"] = {{"same_pixels", maps.same_pixels}, {"mean_iou", maps.mean_iou}};
  }
};

Json ToJson(const ComparedVariant& variant) {
  Json json = VariantJson(variant.model, variant.backbone, variant.attention,
                          variant.weights_of_attention, variant.untrained);
  json.update({{"compute", ToJson(variant.compute)},
               {"postprocess_ms", QuartilesJson(variant.postprocess_ms)},
               {"decode_ms", QuartilesJson(variant.decode_ms)},
               {"preprocess_ms", QuartilesJson(variant.preprocess_ms)},
               {"images_per_second", variant.images_per_second},
               {"peak_bytes", variant.peak_bytes},
               {"weight_bytes", variant.weight_bytes},
               {"parameters", variant.parameters},
               {"multiply_adds", variant.multiply_adds}});
  if (variant.attention_ms) json["attention_ms"] = QuartilesJson(*variant.attention_ms);
  json["attention_left_out"] = variant.attention_left_out;
  std::visit(AddAgreement{json}, variant.agreement);
  if (variant.feature_cosine) json["feature_cosine"] = *variant.feature_cosine;
  Json answers = Json::array();
  for (const BriefAnswer& answer : variant.answers) {
    answers.push_back(
        {{"label", answer.label}, {"confidence", answer.confidence}, {"objects", answer.objects}});
  }
  json["answers"] = std::move(answers);
  return json;
}

// What is said once of all variants.
Json SharedByVariants(const Comparison& comparison, const std::string& command) {
  Json json = {{"control", ToJson(comparison.control)},
               {"rounds", comparison.rounds},
               {"batch_size", comparison.batch_size},
               {"threads", comparison.threads},
               {"device", comparison.device}};
  AddProvenance(comparison.measured, json);
  json["command"] = command;
  return json;
}

}  // namespace

std::string ComparisonJson(const Comparison& comparison, const std::vector<std::string>& images,
                           const std::string& command, const DatasetFigures* dataset) {
  Json variants = Json::array();
  for (const ComparedVariant& variant : comparison.variants) variants.push_back(ToJson(variant));
  Json decoded = Json::array();
  for (size_t i = 0; i < comparison.images.size(); ++i) {
    const ComparedImage& image = comparison.images[i];
    decoded.push_back({{"file", i < images.size() ? images[i] : ""},
                       {"height", image.height},
                       {"width", image.width}});
  }
  Json json = {{"variants", std::move(variants)}};
  json.update(SharedByVariants(comparison, command));
  json["images"] = std::move(decoded);
  // It has been read as JSON.
  if (dataset != nullptr) json["dataset"] = Json::parse(dataset->document);
  // File names need not be UTF-8, JSON must be.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string ComparisonCsv(const Comparison& comparison, const std::string& command,
                          const DatasetFigures* dataset) {
  const Json shared = Flat(SharedByVariants(comparison, command));
  std::vector<Json> rows;
  for (const ComparedVariant& variant : comparison.variants) {
    Json json = ToJson(variant);
    json.erase("answers");  // one for each image
    Json& row = rows.emplace_back(Flat(json));
    if (dataset != nullptr) {
      for (const auto& [column, figure] : DatasetFields(*dataset, rows.size() - 1)) {
        row[column] = figure ? Json(*figure) : Json();
      }
    }
    row.update(shared);
  }
  return Csv(rows);
}

}  // namespace fovea::client
