#include "base/unique_json.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fovea {

std::optional<nlohmann::json> ParseUniqueJson(std::string_view text) {
  using nlohmann::json;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  bool twice = false;
  const auto note = [&](int, json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      twice |= !keys.back().insert(parsed.get<std::string>()).second;
    }
    return true;
  };
  json value = json::parse(text, note, /*allow_exceptions=*/false);
  if (twice || value.is_discarded()) return std::nullopt;
  return value;
}

}  // namespace fovea
