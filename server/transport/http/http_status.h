// The one place where a status of Fovea's becomes one of HTTP's.
#pragma once

#include <boost/beast/http/status.hpp>
#include <string_view>

#include "absl/status/status.h"
#include "server/transport/http/http_exchange.h"

namespace fovea {

// By the policy of docs/faults.md. 200 where it is OK.
boost::beast::http::status HttpStatusOf(const absl::Status& status);

// {"error": text, "code": "INVALID_ARGUMENT", "reason": "image.truncated", "id": ...} with that
// status; the id where there is one. Where trying again helps it says when.
HttpAnswer ErrorAnswer(const absl::Status& status, std::string_view id = "");

}  // namespace fovea
