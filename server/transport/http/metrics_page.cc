#include "server/transport/http/metrics_page.h"

#include <utility>

#include "base/status.h"
#include "server/transport/http/http_status.h"

namespace fovea {

using boost::beast::http::verb;

HttpHandler MakeMetricsPage(std::function<std::string()> text) {
  return [text = std::move(text)](const std::shared_ptr<HttpExchange>& exchange) {
    const HttpRequest& request = exchange->request();
    if (request.method != verb::get && request.method != verb::head) {
      HttpAnswer answer =
          ErrorAnswer(InvalidArgument("http.method_not_allowed", "metrics are only read"));
      answer.fields.emplace_back("Allow", "GET, HEAD");
      return exchange->Answer(std::move(answer));
    }
    if (request.target.path != std::vector<std::string>{"metrics"}) {
      return exchange->Answer(
          ErrorAnswer(NotFound("http.path_unknown", "metrics are at /metrics")));
    }
    exchange->Answer({.fields = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                      .body = {text()}});
  };
}

}  // namespace fovea
