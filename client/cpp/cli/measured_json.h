// How what is measured stands in the JSON that commands print: the names of
// proto/fovea/v1/comparison.proto, and numbers as protobuf writes them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/statistics.h"
#include "client/cpp/comparison.h"
#include "client/cpp/types.h"

namespace fovea::client {

// JSON has no infinity and no NaN: by its name.
nlohmann::ordered_json NumberJson(double number);
nlohmann::ordered_json QuartilesJson(const Quartiles& quartiles);
nlohmann::ordered_json EstimateJson(const Estimate& estimate);
// Adds `measured` to `json`, unless the server does not say.
void AddProvenance(const Provenance& measured, nlohmann::ordered_json& json);
// What a variant is, before what was measured of it. `weights_of_attention` empty: left out.
nlohmann::ordered_json VariantJson(const ModelId& model, const std::string& backbone,
                                   const std::string& attention,
                                   const std::string& weights_of_attention, bool untrained);

}  // namespace fovea::client
