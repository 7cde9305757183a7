#include "server/transport/http/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/transport/http/http_server.h"
#include "tests/server/transport/http/http_testing.h"

namespace fovea {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MetricsPageTest : public ::testing::Test {
 protected:
  std::string Ask(std::string_view method_and_target) {
    return AskHttp(server_->port(), HttpMessage(method_and_target));
  }

  MemoryBudget budget_{1 << 20, SteadyClock()};
  std::unique_ptr<HttpServer> server_ = *HttpServer::Create(
      {.port = 0}, budget_, SteadyClock(), MakeMetricsPage([] { return std::string("up 1\n"); }));
};

TEST_F(MetricsPageTest, AnswersWithTheTextAndItsType) {
  const std::string answer = Ask("GET /metrics");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\nup 1\n"));
  EXPECT_THAT(Ask("GET /metrics?name=x"), EndsWith("up 1\n"));
}

TEST_F(MetricsPageTest, NothingElseIsThere) {
  for (const char* path :
       {"/", "/etc/passwd", "/metrics/../../etc/passwd", "/metricsx", "//metrics", "/metrics/"}) {
    EXPECT_THAT(Ask(std::string("GET ") + path), StartsWith("HTTP/1.1 404 ")) << path;
  }
}

TEST_F(MetricsPageTest, OnlyReads) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const std::string answer = Ask(std::string(method) + " /metrics");
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 ")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD\r\n"));
  }
  const std::string head = Ask("HEAD /metrics");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
}

}  // namespace
}  // namespace fovea
