#include "server/transport/http/cross_origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/transport/http/http_server.h"
#include "tests/server/transport/http/http_testing.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CrossOriginTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> allowed) {
    server_ = *HttpServer::Create(
        {.port = 0}, budget_, SteadyClock(),
        GuardOrigins(std::move(allowed),
                     [](std::shared_ptr<HttpExchange> e) { e->Answer({.body = {"done"}}); }));
  }
  std::string Ask(std::string_view method_and_target, std::string_view fields) {
    return AskHttp(server_->port(), HttpMessage(method_and_target, "", fields));
  }

  MemoryBudget budget_{1 << 20, SteadyClock()};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(CrossOriginTest, PagesOfOtherHostsOnlyGetAndReadNothing) {
  Start({"https://app.example.org"});
  for (const char* fields :
       {"Origin: http://elsewhere\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n",
        "Origin: http://app.example.org\r\n", "Origin: https://app.example.org.evil\r\n"}) {
    for (const char* method : {"POST", "DELETE", "OPTIONS"}) {
      EXPECT_THAT(Ask(std::string(method) + " /x", fields),
                  AllOf(StartsWith("HTTP/1.1 403 "), HasSubstr("http.other_origin"),
                        Not(HasSubstr("Access-Control"))))
          << fields;
    }
    EXPECT_THAT(Ask("GET /x", fields),
                AllOf(StartsWith("HTTP/1.1 200 "), Not(HasSubstr("Access-Control"))));
  }
}

TEST_F(CrossOriginTest, TheServersOwnPagesAndProgramsMayEverything) {
  Start({});
  for (const char* fields :
       {"", "Origin: http://x\r\nSec-Fetch-Site: same-origin\r\n", "Origin: https://x\r\n"}) {
    EXPECT_THAT(Ask("POST /x", fields), StartsWith("HTTP/1.1 200 ")) << fields;
  }
}

TEST_F(CrossOriginTest, AllowedPagesAskAndReadTheAnswer) {
  Start({"https://other.example.org", "https://app.example.org"});
  EXPECT_THAT(Ask("POST /x", "Origin: https://app.example.org\r\nSec-Fetch-Site: cross-site\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("done"), HasSubstr("Vary: Origin\r\n"),
                    HasSubstr("Access-Control-Allow-Origin: https://app.example.org\r\n"),
                    HasSubstr("Access-Control-Expose-Headers: ")));
}

TEST_F(CrossOriginTest, APreflightOfAnAllowedPageIsAnswered) {
  Start({"*"});
  const std::string preflight = "Access-Control-Request-Method: POST\r\n";
  EXPECT_THAT(Ask("OPTIONS /x", "Origin: https://any.example\r\n" + preflight),
              AllOf(StartsWith("HTTP/1.1 204 "), HasSubstr("Access-Control-Allow-Origin: *\r\n"),
                    HasSubstr("Access-Control-Allow-Methods: GET, HEAD, POST, DELETE\r\n"),
                    HasSubstr("Inference-Header-Content-Length"), Not(HasSubstr("done"))));
  EXPECT_THAT(Ask("OPTIONS /x", preflight), HasSubstr("done"));  // of no page: the handler's
}

// Row 102 of docs/faults.md: a page whose name its owner lets point here.
TEST(HostTest, OnlyNamesThatAreTheServersMayBeAsked) {
  MemoryBudget budget(1 << 20, SteadyClock());
  const auto guarded = [&](bool keys) {
    return *HttpServer::Create(
        {.port = 0}, budget, SteadyClock(),
        GuardHosts({"gpu.example.org", "https://app.example.org:8443", "bound", "10.0.0.1"}, keys,
                   [](std::shared_ptr<HttpExchange> e) { e->Answer({}); }));
  };
  const auto open = guarded(false), with_keys = guarded(true);
  const auto answer = [&](const std::string& method, const std::string& host, bool keys,
                          const std::string& fields = "") {
    return AskHttp((keys ? with_keys : open)->port(),
                   method + " /x HTTP/1.1\r\n" + host + fields + "Connection: close\r\n\r\n");
  };
  const std::string of_browsers[] = {"Origin: http://evil.example:8000\r\n",
                                     "Sec-Fetch-Site: same-origin\r\n", "sec-fetch-mode: cors\r\n"};
  for (const char* host :
       {"evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example",
        "x", "gpu.example.org.evil", "[cafe]", "127.1", "0177.0.0.1"}) {
    const std::string field = absl::StrCat("Host: ", host, "\r\n");
    for (const char* method : {"GET", "HEAD", "POST", "OPTIONS"}) {
      EXPECT_THAT(answer(method, field, false), StartsWith("HTTP/1.1 421 ")) << host;
    }
    EXPECT_THAT(answer("GET", field, false), HasSubstr("http.other_host"));
    EXPECT_THAT(answer("POST", field, true), StartsWith("HTTP/1.1 200 ")) << host;
    for (const std::string& browser : of_browsers) {
      EXPECT_THAT(answer("POST", field, true, browser), StartsWith("HTTP/1.1 421 ")) << host;
    }
  }
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8000", "192.168.7.1:8000", "[::1]:8000", "[fe80::1]", "localhost",
        "LocalHost.:8000", "gpu.example.org:80", "GPU.example.org", "app.example.org", "bound:1"}) {
    EXPECT_THAT(answer("POST", absl::StrCat("Host: ", host, "\r\n"), false),
                StartsWith("HTTP/1.1 200 "))
        << host;
  }
}

TEST(HostTest, AnyNameMayBeAskedWhereTheOperatorSaysSo) {
  for (const char* host : {"*", "a.example.org", "a", "10.0.0.1", "[::1]"}) {
    EXPECT_TRUE(CheckHttpHost(host).ok()) << host;
  }
  for (const char* host : {"", "A", "a:8000", "http://a", "*.example.org", "a b", "::1"}) {
    EXPECT_EQ(ReasonOf(CheckHttpHost(host)), "http.bad_host") << host;
  }
  MemoryBudget budget(1 << 20, SteadyClock());
  const auto server = *HttpServer::Create(
      {.port = 0}, budget, SteadyClock(),
      GuardHosts({"*"}, false, [](std::shared_ptr<HttpExchange> e) { e->Answer({}); }));
  EXPECT_THAT(AskHttp(server->port(), HttpMessage("GET /", "")), StartsWith("HTTP/1.1 200 "));
}

TEST(OriginTest, OnlyWhatABrowserSendsIsAnOrigin) {
  for (const char* origin :
       {"*", "http://localhost:3000", "https://a.example.org", "http://[::1]:8"}) {
    EXPECT_TRUE(CheckOrigin(origin).ok()) << origin;
  }
  for (const char* origin : {"", "a.example.org", "https://", "https://a/", "https://A.org",
                             "ftp://a", "null", "https://a b", "https://*.example.org"}) {
    EXPECT_EQ(ReasonOf(CheckOrigin(origin)), "http.bad_origin") << origin;
  }
}

}  // namespace
}  // namespace fovea
