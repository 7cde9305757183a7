#include "server/transport/http/playground.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "client/web/web_files.h"
#include "server/api/api_keys.h"
#include "tests/server/transport/http/http_api_testing.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class PlaygroundTest : public HttpApiTest {
 protected:
  static std::string Path(const WebFile& file) { return "/playground/" + std::string(file.name); }
};

std::set<std::string> Names() {
  std::set<std::string> names;
  for (const WebFile& file : WebFiles()) names.emplace(file.name);
  return names;
}

TEST_F(PlaygroundTest, IsAtTheRoot) {
  const HttpApiAnswer page = Ask("GET /");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.Field("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page.body, HasSubstr("<title>Fovea</title>"));
  const HttpApiAnswer head = Ask("HEAD /");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.Field("Content-Length"), std::to_string(page.body.size()));
  EXPECT_THAT(head.body, IsEmpty());
}

TEST_F(PlaygroundTest, EachFileIsSentAsItIs) {
  ASSERT_GT(WebFiles().size(), 10);
  for (const WebFile& file : WebFiles()) {
    const HttpApiAnswer answer = Ask("GET " + Path(file));
    EXPECT_EQ(answer.status, 200) << file.name;
    EXPECT_EQ(answer.body, file.bytes) << file.name;
    EXPECT_EQ(answer.Field("Content-Type"), file.content_type) << file.name;
  }
}

TEST_F(PlaygroundTest, NothingElseIsThere) {
  for (const char* path :
       {"/playground", "/playground/", "/playground/none.js", "/playground/APP.JS",
        "/playground/../app.js", "/playground/%2e%2e%2fapp.js", "/playground/x/app.js",
        "/playground/..%2f..%2fetc%2fpasswd", "/app.js", "/index.html"}) {
    EXPECT_EQ(Ask(std::string("GET ") + path).status, 404) << path;
  }
  EXPECT_EQ(Ask("GET /playground/none.js").Reason(), "playground.no_file");
  EXPECT_EQ(Ask("POST /").status, 405);
  EXPECT_EQ(Ask("POST /playground/app.js").Field("Allow"), "GET, HEAD");
}

TEST_F(PlaygroundTest, APageMayAskThisServerAndNothingElse) {
  for (const char* path : {"/", "/playground/app.js", "/playground/star.jpg"}) {
    const HttpApiAnswer answer = Ask(std::string("GET ") + path);
    const std::string policy = answer.Field("Content-Security-Policy");
    for (const char* part :
         {"default-src 'none'", "script-src 'self';", "style-src 'self';", "connect-src 'self';",
          "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"}) {
      EXPECT_THAT(policy, HasSubstr(part)) << path;
    }
    EXPECT_THAT(policy, Not(HasSubstr("unsafe"))) << path;
    EXPECT_EQ(answer.Field("X-Content-Type-Options"), "nosniff") << path;
    EXPECT_EQ(answer.Field("Referrer-Policy"), "no-referrer") << path;
    EXPECT_EQ(answer.Field("Cross-Origin-Resource-Policy"), "same-origin") << path;
    EXPECT_THAT(answer.Field("Permissions-Policy"), HasSubstr("camera=(self)")) << path;
  }
}

TEST_F(PlaygroundTest, WhatACallerHasIsNotSentAgain) {
  const HttpApiAnswer first = Ask("GET /");
  const std::string etag = first.Field("ETag");
  EXPECT_EQ(first.Field("Cache-Control"), "no-cache");
  for (const std::string& known :
       {etag, "\"x\", " + etag, "\"x\" ," + etag + ",\"y\"", std::string("*")}) {
    const HttpApiAnswer again = Ask("GET /", "", "If-None-Match: " + known + "\r\n");
    EXPECT_EQ(again.status, 304) << known;
    EXPECT_EQ(again.Field("ETag"), etag);
    EXPECT_EQ(again.Field("Content-Length"), "") << "of what is not sent";
    EXPECT_NE(again.Field("Content-Security-Policy"), "");
    EXPECT_THAT(again.body, IsEmpty());
  }
  for (const char* other : {"\"x\"", "W/", ""}) {
    EXPECT_EQ(Ask("GET /", "", std::string("If-None-Match: ") + other + "\r\n").status, 200);
  }
  std::set<std::string> etags;
  for (const WebFile& file : WebFiles()) etags.emplace(file.etag);
  EXPECT_EQ(etags.size(), WebFiles().size());
}

TEST_F(PlaygroundTest, TextLeavesCompressedAndPicturesAsTheyAre) {
  const HttpApiAnswer text = Ask("GET /playground/app.js", "", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(text.Field("Content-Encoding"), "gzip");
  EXPECT_EQ(text.Field("Vary"), "Accept-Encoding");
  EXPECT_EQ(text.Field("ETag").substr(0, 2), "W/") << "the same of both codings";
  EXPECT_EQ(
      Ask("GET /playground/star.jpg", "", "Accept-Encoding: gzip\r\n").Field("Content-Encoding"),
      "");
}

TEST_F(PlaygroundTest, NeedsNoKeyAndLeadsToNothingThatNeedsOne) {
  api_->authenticator().SetKeys({{.name = "a", .digest = DigestOf("secret")}});
  EXPECT_EQ(Ask("GET /").status, 200);
  EXPECT_EQ(Ask("GET /playground/app.js").status, 200);
  EXPECT_EQ(Ask("GET /metrics").status, 401);
  EXPECT_EQ(Ask("GET /v2").status, 401);
  EXPECT_EQ(Ask("GET /", std::string(5000, 'x')).status, 413);
}

TEST_F(PlaygroundTest, APortMayBeWithoutIt) {
  groups_.Remove(ApiGroup::kPlayground);
  Start({});
  for (const char* path : {"/", "/playground/app.js"}) {
    const HttpApiAnswer closed = Ask(std::string("GET ") + path);
    EXPECT_EQ(closed.status, 403) << path;
    EXPECT_EQ(closed.Reason(), "auth.group_closed") << path;
  }
  EXPECT_FALSE(Ask("GET /openapi.json").Json()["paths"].contains("/"));
  EXPECT_EQ(Ask("GET /v2").status, 200);
}

TEST_F(PlaygroundTest, MetricsAreReadAtThePortOfRequestsToo) {
  EXPECT_EQ(Ask("GET /metrics").status, 501) << "there are none";
  metrics_ = [] { return std::string("up 1\n"); };
  Start({});
  const HttpApiAnswer answer = Ask("GET /metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "up 1\n");
  EXPECT_EQ(answer.Field("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  groups_.Remove(ApiGroup::kStatistics);
  Start({});
  EXPECT_EQ(Ask("GET /metrics").Reason(), "auth.group_closed");
}

// What `pattern` finds in a file: its first group.
std::vector<std::string> Found(const WebFile& file, const char* pattern) {
  const std::string text(file.bytes);
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) {
    found.push_back((*at)[1]);
  }
  return found;
}

TEST(PlaygroundFiles, NameNoOtherHostAndNoFileThatIsNotThere) {
  const std::set<std::string> names = Names();
  int references = 0;
  for (const WebFile& file : WebFiles()) {
    if (file.content_type == "image/jpeg") continue;
    for (const std::string& url : Found(file, R"((https?:?//[^\s"'`<>)]*))")) {
      EXPECT_EQ(url, "http://www.w3.org/2000/svg") << file.name << ": a name, and no address";
    }
    for (const std::string& name : Found(file, R"re((?:from|import) "\./([^"]*)")re")) {
      EXPECT_TRUE(names.contains(name)) << file.name << " imports " << name;
      ++references;
    }
    for (const std::string& name : Found(file, R"re((?:src|href)="playground/([^"]*)")re")) {
      EXPECT_TRUE(names.contains(name)) << file.name << " names " << name;
      ++references;
    }
  }
  EXPECT_GT(references, 20);
}

// What the policy would refuse, and a browser would only tell its console.
TEST(PlaygroundFiles, HaveNoCodeAndNoStyleWithinHtml) {
  const auto page = std::ranges::find(WebFiles(), "index.html", &WebFile::name);
  ASSERT_NE(page, WebFiles().end());
  EXPECT_THAT(Found(*page, R"((<style|\sstyle=|\son[a-z]+=|javascript:))"), IsEmpty());
  EXPECT_THAT(Found(*page, R"((<script[^>]*>[^<]))"), IsEmpty());
}

}  // namespace
}  // namespace fovea
