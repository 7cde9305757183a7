#include "client/cpp/cli/json.h"

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
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
  if (receipt.device_times) {
    json["h2d_ns"] = absl::ToInt64Nanoseconds(receipt.device_times->h2d);
    json["kernels_ns"] = absl::ToInt64Nanoseconds(receipt.device_times->kernels);
    json["d2h_ns"] = absl::ToInt64Nanoseconds(receipt.device_times->d2h);
  }
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

}  // namespace fovea::client
