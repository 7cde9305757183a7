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

}  // namespace fovea::client
