#include "client/cpp/cli/sweep_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "client/cpp/cli/csv.h"
#include "client/cpp/cli/measured_json.h"
#include "client/cpp/cli/sweep_text.h"

namespace fovea::client {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const SweptPoint& point) {
  if (!point.failure.empty()) return {{"failure", point.failure}};
  Json json = {{"attention", point.attention}, {"compute_ms", QuartilesJson(point.compute_ms)}};
  if (point.compute_estimate_ms)
    json["compute_estimate_ms"] = EstimateJson(*point.compute_estimate_ms);
  if (point.attention_ms) json["attention_ms"] = QuartilesJson(*point.attention_ms);
  json["attention_left_out"] = point.attention_left_out;
  json.update({{"images_per_second", point.images_per_second},
               {"peak_bytes", point.peak_bytes},
               {"weight_bytes", point.weight_bytes},
               {"multiply_adds", point.multiply_adds}});
  return json;
}

void AddExponent(Json& curve, const char* name, const std::optional<FittedExponent>& fitted) {
  if (!fitted) return;
  curve[name] = {{"exponent", EstimateJson(fitted->exponent)},
                 {"points", fitted->points},
                 {"worst_ratio", fitted->worst_ratio}};
}

Json ToJson(const SweptCurve& curve) {
  Json points = Json::array();
  for (const SweptPoint& point : curve.points) points.push_back(ToJson(point));
  Json json = VariantJson(curve.model, curve.backbone, curve.attention, curve.weights_of_attention,
                          curve.untrained);
  json["points"] = std::move(points);
  AddExponent(json, "compute_exponent", curve.compute_exponent);
  AddExponent(json, "attention_exponent", curve.attention_exponent);
  AddExponent(json, "peak_exponent", curve.peak_exponent);
  return json;
}

}  // namespace

std::string SweepJson(const Sweep& sweep, const std::string& command) {
  Json curves = Json::array();
  for (const SweptCurve& curve : sweep.curves) curves.push_back(ToJson(curve));
  Json json = {{"over", absl::AsciiStrToUpper(AxisText(sweep.over))},
               {"values", sweep.values},
               {"places", sweep.places},
               {"curves", std::move(curves)},
               {"rounds", sweep.rounds},
               {"batch_size", sweep.batch_size},
               {"threads", sweep.threads},
               {"device", sweep.device}};
  AddProvenance(sweep.measured, json);
  json["command"] = command;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string SweepCsv(const Sweep& sweep, const std::string& command) {
  Json shared = Json::parse(SweepJson(sweep, command));
  for (const char* const list : {"values", "places", "curves"}) shared.erase(list);
  // The value is the row's own.
  if (sweep.over == SweepAxis::kBatch) shared.erase("batch_size");
  if (sweep.over == SweepAxis::kThreads) shared.erase("threads");
  shared = Flat(shared);
  std::vector<Json> rows;
  for (const SweptCurve& curve : sweep.curves) {
    Json of_curve = {{"curve", curve.attention}};
    of_curve.update(Flat(ToJson(curve)));
    of_curve.erase("points");
    of_curve.erase("attention");  // each point has its own
    for (size_t i = 0; i < curve.points.size(); ++i) {
      Json& row = rows.emplace_back(of_curve);
      row["value"] = sweep.values[i];
      if (!sweep.places.empty()) row["place"] = sweep.places[i];
      row.update(Flat(ToJson(curve.points[i])));
      row.update(shared);
    }
  }
  return Csv(rows);
}

}  // namespace fovea::client
