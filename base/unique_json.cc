#include "base/unique_json.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fovea {

std::optional<nlohmann::json> ParseUniqueJson(std::string_view text) {
  using nlohmann::json;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  constexpr int kMaxDepth = 100;
  bool twice = false, deep = false;
  const auto note = [&](int depth, json::parse_event_t event, const json& parsed) {
    const bool opens =
        event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
    deep |= opens && depth >= kMaxDepth;
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      twice |= !keys.back().insert(parsed.get<std::string>()).second;
    }
    return !deep;
  };
  json value = json::parse(text, note, /*allow_exceptions=*/false);
  if (twice || deep || value.is_discarded()) return std::nullopt;
  return value;
}

}  // namespace fovea
