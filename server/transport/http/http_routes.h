// The one table of the port's paths: what each is called, who answers it, what it takes and gives.
// Requests go by it (http_api), and GET /openapi.json is written from it (openapi).
#pragma once

#include <array>
#include <boost/beast/http/verb.hpp>
#include <span>
#include <string_view>
#include <type_traits>

#include "server/api/api_methods.h"
#include "server/transport/http/openapi_schemas.h"
#include "server/transport/http/path_call.h"

namespace fovea {

// What OpenAPI says of a route beyond its path and group.
struct HttpOperation {
  std::string_view id;       // of all routes unique: generated clients call their functions so
  std::string_view summary;  // one line
  std::remove_pointer_t<DescribePart>& answer;  // what a 200 holds, by media type
  DescribePart body = nullptr;                  // OpenAPI's requestBody; null: none is read
  DescribePart parameters = nullptr;            // a list of them, beside the path's; null: none
  // Statuses of errors beside those that any route has (openapi.cc); 0: no further one.
  std::array<int, 5> errors = {};
  bool may_not_be_ready = false;  // 503 says the same as 200
};

struct HttpRoute {
  boost::beast::http::verb method;
  std::string_view pattern;  // without the slash in front; "{model}" stands for any one part
  ApiMethod api;             // what it stands for
  void (*run)(PathCall call);
  HttpOperation operation;
};

std::span<const HttpRoute> HttpRoutes();

}  // namespace fovea
