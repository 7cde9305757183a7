#include "client/cpp/cli/measured_json.h"

#include <cmath>
#include <utility>

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

void AddProvenance(const Provenance& measured, Json& json) {
  if (measured.at.empty()) return;
  Json where = {{"at", measured.at},
                {"by", measured.by},
                {"processor", measured.processor},
                {"cores", measured.cores}};
  if (measured.other_cores) {
    where["other_cores"] = *measured.other_cores;
    where["busy"] = measured.busy;
  }
  json["measured"] = std::move(where);
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
