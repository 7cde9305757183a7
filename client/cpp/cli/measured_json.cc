#include "client/cpp/cli/measured_json.h"

#include <cmath>

namespace fovea::client {

using Json = nlohmann::ordered_json;

Json NumberJson(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return number;
}

Json QuartilesJson(const Quartiles& quartiles) {
  return {{"lower", quartiles.lower}, {"median", quartiles.median}, {"upper", quartiles.upper}};
}

Json EstimateJson(const Estimate& estimate) {
  return {{"value", NumberJson(estimate.value)},
          {"lower", NumberJson(estimate.lower)},
          {"upper", NumberJson(estimate.upper)}};
}

Json VariantJson(const ModelId& model, const std::string& backbone, const std::string& attention,
                 const std::string& weights_of_attention, bool untrained) {
  Json json = {{"model_name", model.name},
               {"model_version", model.version},
               {"backbone", backbone},
               {"attention", attention}};
  if (!weights_of_attention.empty()) json["weights_of_attention"] = weights_of_attention;
  json["untrained"] = untrained;
  return json;
}

}  // namespace fovea::client
