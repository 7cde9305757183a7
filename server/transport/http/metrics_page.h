// The port that Prometheus scrapes.
#pragma once

#include <functional>
#include <string>

#include "server/transport/http/http_exchange.h"

namespace fovea {

// Answers GET and HEAD of /metrics with what `text` makes: Prometheus' text format.
HttpHandler MakeMetricsPage(std::function<std::string()> text);

}  // namespace fovea
