// What a caller sends over a connection, to a server that answers every whole request: connections
// end, and no body is longer than what was sent.
#include <memory>

#include "server/core/clock.h"
#include "server/transport/http/http_server.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/server/transport/http/http_testing.h"

namespace fovea {
namespace {

size_t sent_bytes = 0;

void AnswerAll(const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  FOVEA_CHECK(request.body_bytes >= 0);
  FOVEA_CHECK(static_cast<size_t>(request.body_bytes) <= sent_bytes);
  int64_t received = 0;
  for (const auto& piece : request.body.pieces) received += static_cast<int64_t>(piece.size());
  FOVEA_CHECK(received == request.body_bytes);
  exchange->Answer({.body = {"seen"}});
}

HttpServer& Port(MemoryBudget& budget) {
  static const std::unique_ptr<HttpServer> port =
      *HttpServer::Create({.port = 0, .threads = 1}, budget, SteadyClock(), AnswerAll);
  return *port;
}

}  // namespace

FOVEA_FUZZ_TARGET(http_framing, input) {
  static MemoryBudget budget(64 << 20, SteadyClock());
  sent_bytes = input.rest().size();
  HttpConnection connection(Port(budget).port());
  connection.Send(input.rest());
  connection.EndSending();
  const std::string answers = connection.ReadAll();  // ends: the other side closes
  FOVEA_CHECK(answers.empty() || answers.rfind("HTTP/1.1 ", 0) == 0);
}

}  // namespace fovea
