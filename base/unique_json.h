// JSON whose objects have each key once.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace fovea {

// Nothing where `text` is no JSON, or where an object has one key twice: which of the two counts
// JSON leaves open, so that two readers could read two things. Nor where it is nested more than 100
// deep, as protobuf's reader has it: who reads what was parsed may recurse.
std::optional<nlohmann::json> ParseUniqueJson(std::string_view text);

}  // namespace fovea
