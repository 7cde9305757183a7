// Who may make a request, and which route of http_routes it goes: the Open Inference Protocol's
// REST with Triton's extensions, and Fovea's own short paths.
#pragma once

#include "server/transport/http/http_exchange.h"
#include "server/transport/http/infer_http.h"

namespace fovea {

// Answers every request of the port; `context` outlives the handler's server.
HttpHandler MakeHttpApi(HttpContext& context);
// For the same server: who may not make a request need not send its body. (The handler asks too.)
HttpCheck MakeHttpCheck(HttpContext& context);

}  // namespace fovea
