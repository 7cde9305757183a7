// How what is measured stands in the JSON that commands print: the names of
// proto/fovea/v1/comparison.proto, and numbers as protobuf writes them.
#pragma once

#include <nlohmann/json.hpp>

#include "base/statistics.h"

namespace fovea::client {

// JSON has no infinity: by its name.
nlohmann::ordered_json NumberJson(double number);
nlohmann::ordered_json QuartilesJson(const Quartiles& quartiles);
nlohmann::ordered_json EstimateJson(const Estimate& estimate);

}  // namespace fovea::client
