// Triton's settings of traces and of the log in JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "server/api/server_api.h"

namespace fovea {

// Changes what `body`, an object, names (null: resets), of `model` or, where that is empty, of the
// server, for `caller`; then all settings. INVALID_ARGUMENT request.json: a value of another type;
// the api's errors.
absl::StatusOr<std::string> AnswerTraceSettings(ServerApi& api, const std::string& model,
                                                const nlohmann::json& body, const Caller& caller);
absl::StatusOr<std::string> AnswerLogSettings(ServerApi& api, const nlohmann::json& body,
                                              const Caller& caller);

}  // namespace fovea
