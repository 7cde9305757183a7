#include "client/cpp/cli/sweep_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
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

std::string SweepJson(const Sweep& sweep) {
  Json curves = Json::array();
  for (const SweptCurve& curve : sweep.curves) curves.push_back(ToJson(curve));
  const Json json = {{"over", absl::AsciiStrToUpper(AxisText(sweep.over))},
                     {"values", sweep.values},
                     {"places", sweep.places},
                     {"curves", std::move(curves)},
                     {"rounds", sweep.rounds},
                     {"batch_size", sweep.batch_size},
                     {"threads", sweep.threads},
                     {"device", sweep.device}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fovea::client
