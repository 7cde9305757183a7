// Requests that a browser sends for a page of another origin (the Fetch standard's CORS protocol).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/transport/http/http_exchange.h"

namespace fovea {

// "http://host", "https://host:port", or "*" for all of them. INVALID_ARGUMENT http.bad_origin:
// `origin` is none, as a browser would never send it.
absl::Status CheckOrigin(std::string_view origin);

// Pages of `allowed` origins may send everything and read the answers; a preflight is answered
// here. Pages of other origins, but for the server's own, may only GET, and read nothing: what
// changes or costs something is refused to them (PERMISSION_DENIED http.other_origin), because a
// browser lets any page send what a form can, and ports on loopback are open to it.
HttpHandler GuardOrigins(std::vector<std::string> allowed, HttpHandler next);

}  // namespace fovea
