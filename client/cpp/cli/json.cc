#include "client/cpp/cli/json.h"

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/statistics.h"
#include "client/cpp/cli/text.h"
#include "client/cpp/client.h"

namespace fovea::client {
namespace {

using Json = nlohmann::ordered_json;

// File names need not be UTF-8, JSON must be.
std::string Text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The double that prints as the float does: 0.9 rather than 0.8999999761581421.
double Shortest(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double result = value;
  std::from_chars(text, end, result);
  return result;
}

Json ToJson(const ClassScore& score) {
  return {{"index", score.index},
          {"label", score.label},
          {"confidence", Shortest(score.confidence)},
          {"logit", Shortest(score.logit)}};
}

Json ToJson(const std::vector<ClassScore>& scores) {
  Json json = Json::array();
  for (const ClassScore& score : scores) json.push_back(ToJson(score));
  return json;
}

Json ToJson(const Receipt& receipt) {
  Json json;
  for (size_t i = 0; i < kStageNames.size(); ++i) {
    json[absl::StrCat(kStageNames[i].data(), "_ns")] = absl::ToInt64Nanoseconds(receipt.stages[i]);
  }
  json["batch_size"] = receipt.batch_size;
  json["batch_threads"] = receipt.batch_threads;
  json["batch_peak_bytes"] = receipt.batch_peak_bytes;
  json["padding"] = receipt.padding;
  if (!receipt.experiment.empty()) {
    json["experiment"] = receipt.experiment;
    json["experiment_arm"] = receipt.experiment_arm;
  }
  return json;
}

Json ToJson(const std::vector<TensorInfo>& tensors) {
  Json json = Json::array();
  for (const TensorInfo& tensor : tensors) {
    json.push_back({{"name", tensor.name}, {"datatype", tensor.datatype}, {"shape", tensor.shape}});
  }
  return json;
}

Json ToJson(const DurationSum& sum) {
  return {{"count", sum.count}, {"ns", absl::ToInt64Nanoseconds(sum.total)}};
}

Json ToJson(const Quartiles& quartiles) {
  return {{"median", quartiles.median},
          {"lower_quartile", quartiles.lower},
          {"upper_quartile", quartiles.upper}};
}

const char* Token(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFaster:
      return "faster";
    case Verdict::kSlower:
      return "slower";
    case Verdict::kNoDifference:
      return "no_difference";
    case Verdict::kFewRounds:
      return "few_rounds";
    case Verdict::kUnsteady:
      return "unsteady";
    case Verdict::kControlOff:
      return "control_off";
    case Verdict::kWide:
      return "wide";
    case Verdict::kBaseline:
      return "baseline";
  }
  return "";
}

Json ToJson(const Estimate& estimate) {
  return {{"estimate", estimate.value}, {"lower", estimate.lower}, {"upper", estimate.upper}};
}

// `verdict` is null where there is none, and `doubt` says why; of the baseline both are.
Json ToJson(const ComparedTime& time) {
  Json json = {{"ms", ToJson(time.ms)},
               {"ratio", nullptr},
               {"difference_ms", nullptr},
               {"verdict", nullptr},
               {"doubt", nullptr}};
  if (time.ratio) json["ratio"] = ToJson(*time.ratio);
  if (time.difference_ms) json["difference_ms"] = ToJson(*time.difference_ms);
  if (time.verdict != Verdict::kBaseline) {
    json[IsVerdict(time.verdict) ? "verdict" : "doubt"] = Token(time.verdict);
  }
  return json;
}

// What changes in a variant's answers, under the name of its kind. JSON has no infinity: null.
struct AddAgreement {
  Json& row;

  void operator()(std::monostate) const {}
  void operator()(const ClassAgreement& classes) const {
    row["classes"] = {{"images", classes.images},
                      {"same_top1", classes.same_top1},
                      {"top5_overlap", classes.top5_overlap},
                      {"kl_divergence", classes.kl_divergence},
                      {"max_confidence_difference", classes.max_confidence_difference}};
  }
  void operator()(const ObjectAgreement& objects) const {
    row["objects"] = {{"baseline_objects", objects.baseline_objects},
                      {"objects", objects.objects},
                      {"matched", objects.matched},
                      {"mean_box_iou", objects.mean_box_iou},
                      {"mean_mask_iou", nullptr},
                      {"mean_score_difference", objects.mean_score_difference}};
    if (objects.mean_mask_iou) row["objects"]["mean_mask_iou"] = *objects.mean_mask_iou;
  }
  void operator()(const MapAgreement& maps) const {
    row["maps"] = {{"same_pixels", maps.same_pixels}, {"mean_iou", maps.mean_iou}};
  }
};

// As DetectedJson names it.
Json CocoImage(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();
  int64_t number = 0;
  return absl::SimpleAtoi(stem, &number) && number >= 0 ? Json(number) : Json(path);
}

Json ToJson(const absl::Status& status) {
  return {{"code", absl::StatusCodeToString(status.code())},
          {"reason", ReasonOf(status)},
          {"message", std::string(status.message())}};
}

}  // namespace

std::string ModelsJson(const std::vector<ModelInfo>& models) {
  Json json = Json::array();
  for (const ModelInfo& model : models) {
    json.push_back({{"name", model.name},
                    {"version", model.version},
                    {"state", model.state},
                    {"reason", model.reason},
                    {"task", model.task},
                    {"attention", model.attention},
                    {"backbone", model.backbone},
                    {"precision", model.precision},
                    {"untrained", model.untrained},
                    {"inputs", ToJson(model.inputs)},
                    {"outputs", ToJson(model.outputs)},
                    {"properties", model.properties}});
  }
  return Text({{"models", json}});
}

std::string ClassifiedJsonHead(const ModelId& model) {
  return absl::StrCat("{\"model\": ", Line(model.name), ", \"results\": [");
}

std::string ClassifiedJson(const std::string& path,
                           const absl::StatusOr<ClassifyResponse>& outcome) {
  Json result = {{"file", path}};
  if (outcome.ok()) {
    result["version"] = outcome->model.version;
    result["attention"] = outcome->attention;
    result["untrained"] = outcome->untrained;
    result["classes"] = ToJson(outcome->images[0]);
    result["receipt"] = ToJson(outcome->receipt);
    result["round_trip_ns"] = absl::ToInt64Nanoseconds(outcome->round_trip);
  } else {
    result["error"] = ToJson(outcome.status());
  }
  return Line(result);
}

std::string ClassifiedJsonTail(size_t classified, size_t failed,
                               std::optional<size_t> without_result, bool interrupted) {
  Json summary = {{"classified", classified},
                  {"failed", failed},
                  {"without_result", nullptr},
                  {"interrupted", interrupted}};
  if (without_result) summary["without_result"] = *without_result;
  return absl::StrCat("\n], \"summary\": ", Line(summary), "}");
}

std::string DetectedJson(const std::string& path, const ImageDetections& found) {
  const Json image = CocoImage(path);
  std::string lines;
  for (const Detection& one : found.detections) {
    const Box& box = one.box;
    Json line = {{"image_id", image},
                 {"category_id", one.class_index},
                 {"bbox",
                  {Shortest(box.left), Shortest(box.top), Shortest(box.right - box.left),
                   Shortest(box.bottom - box.top)}},
                 {"score", Shortest(one.score)},
                 {"category_name", one.label}};
    if (one.mask) {
      line["segmentation"] = {{"size", {found.image_height, found.image_width}},
                              {"counts", one.mask->run_lengths}};
    }
    absl::StrAppend(&lines, lines.empty() ? "" : ",\n", Line(line));
  }
  return lines;
}

std::string SegmentedJson(const std::string& path, const ImageSegmentation& map) {
  const Json image = CocoImage(path);
  std::string lines;
  for (const ClassArea& area : map.classes) {
    const Json line = {
        {"image_id", image},
        {"category_id", area.class_index},
        {"segmentation",
         {{"size", {map.image_height, map.image_width}}, {"counts", area.run_lengths}}},
        {"area", area.pixels},
        {"category_name", area.label}};
    absl::StrAppend(&lines, lines.empty() ? "" : ",\n", Line(line));
  }
  return lines;
}

std::string StatisticsJson(const std::vector<ModelStatistics>& statistics) {
  Json json = Json::array();
  for (const ModelStatistics& row : statistics) {
    Json model = {{"name", row.name},
                  {"version", row.version},
                  {"images", row.images},
                  {"batches", row.batches},
                  {"success", ToJson(row.success)},
                  {"fail", ToJson(row.fail)},
                  {"queue", ToJson(row.queue)},
                  {"compute_input", ToJson(row.compute_input)},
                  {"compute_infer", ToJson(row.compute_infer)},
                  {"compute_output", ToJson(row.compute_output)},
                  {"memory_bytes", row.memory_bytes}};
    model["last_inference"] = nullptr;
    if (row.last_inference != absl::InfinitePast()) {
      model["last_inference"] =
          absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", row.last_inference, absl::UTCTimeZone());
    }
    json.push_back(std::move(model));
  }
  return Text({{"models", json}});
}

std::string ComparisonJson(const Comparison& comparison, const std::vector<std::string>& images,
                           const DatasetFigures* dataset) {
  Json variants = Json::array();
  for (const ComparedVariant& variant : comparison.variants) {
    Json row = {{"model", ModelText(variant.model)},
                {"backbone", variant.backbone},
                {"attention", variant.attention},
                {"weights_of_attention", nullptr},
                {"untrained", variant.untrained},
                {"decode_ms", ToJson(variant.decode_ms)},
                {"preprocess_ms", ToJson(variant.preprocess_ms)},
                {"compute", ToJson(variant.compute)},
                {"postprocess_ms", ToJson(variant.postprocess_ms)},
                {"attention_ms", ToJson(variant.attention_ms)},
                {"images_per_second", variant.images_per_second},
                {"peak_bytes", variant.peak_bytes},
                {"weight_bytes", variant.weight_bytes},
                {"parameters", variant.parameters},
                {"multiply_adds", variant.multiply_adds}};
    // Null: the weights are served with this attention.
    if (!variant.weights_of_attention.empty()) {
      row["weights_of_attention"] = variant.weights_of_attention;
    }
    std::visit(AddAgreement{row}, variant.agreement);
    Json answers = Json::array();
    for (const BriefAnswer& answer : variant.answers) {
      answers.push_back({{"label", answer.label},
                         {"confidence", answer.confidence},
                         {"objects", answer.objects}});
    }
    row["answers"] = std::move(answers);
    if (variant.feature_cosine) row["feature_cosine"] = *variant.feature_cosine;
    variants.push_back(std::move(row));
  }
  Json decoded = Json::array();
  for (size_t i = 0; i < comparison.images.size(); ++i) {
    const ComparedImage& image = comparison.images[i];
    decoded.push_back({{"file", i < images.size() ? images[i] : ""},
                       {"height", image.height},
                       {"width", image.width}});
  }
  Json whole = {{"images", decoded},
                {"rounds", comparison.rounds},
                {"batch_size", comparison.batch_size},
                {"threads", comparison.threads},
                {"device", comparison.device},
                {"confidence", kConfidence},
                {"control", ToJson(comparison.control)},
                {"variants", variants}};
  // It has been read as JSON.
  if (dataset != nullptr) whole["dataset"] = Json::parse(dataset->document);
  return Text(whole);
}

}  // namespace fovea::client
