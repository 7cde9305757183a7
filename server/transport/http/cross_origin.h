// Requests that a browser sends for a page of another origin (the Fetch standard's CORS protocol),
// or of a name that is not the server's.
#pragma once

#include <string>
#include <string_view>
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

// "host.example.org", or "*" for any. INVALID_ARGUMENT http.bad_host: `host` is no host's name or
// address in lower case, or has a port.
absl::Status CheckHttpHost(std::string_view host);

// Requests whose Host is an address, "localhost" or among `hosts`, which may have a port or be
// origins, go to `next`; others are refused (http.other_host). A page whose owner points its name
// at this machine (DNS rebinding) has the server's origin for the browser, which then lets it send
// and read everything; only the name gives it away. Callers over TLS have checked the name by the
// certificate and may use any; with `keys`, so may programs.
HttpHandler GuardHosts(std::vector<std::string> hosts, bool keys, HttpHandler next);

}  // namespace fovea
