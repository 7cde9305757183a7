// GET /openapi.json: what the port offers, for people, for generators of clients and for tests.
//   OpenAPI 3.1.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/api/api_methods.h"
#include "server/transport/http/http_routes.h"

namespace fovea {

struct OpenApiOptions {
  std::string_view version;  // the server's
  bool asks_for_keys = false;
  ApiGroups groups = ApiGroups::All();  // that the port answers: the others are left out
};

// The document, as text.
std::string OpenApiDocument(std::span<const HttpRoute> routes, const OpenApiOptions& options);

namespace http_calls {
void TellOpenApi(PathCall call);
}  // namespace http_calls
}  // namespace fovea
