#include "server/transport/http/json_text.h"

#include <nlohmann/json.hpp>

namespace fovea {

void AppendText(std::string_view text, std::string* json) {
  json->append(nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace fovea
