// POST /v1/serve.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/status.h"
#include "tests/server/api/fake_variants.h"
#include "tests/server/transport/http/http_experiment_testing.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;

class HttpServeTest : public HttpExperimentTest {
 protected:
  HttpServeTest() { Start({.variants = &variants_}); }
  std::string Variants() {
    std::string text;
    for (const Variant& variant : variants_.request().variants) {
      text += variant.model_name + "/" + variant.model_version + ":" + variant.attention + ";";
    }
    return text;
  }

  FakeVariants variants_;
};

TEST_F(HttpServeTest, TheAnswerStaysOpenUntilTheCallerGoes) {
  HttpConnection connection(server_->port());
  connection.Send(HttpMessage("POST /v1/serve?model=vit&attention=knn:k%3D3", ""));
  variants_.Tell(0, 1);
  EXPECT_THAT(
      connection.ReadUntil("}\n"),
      HasSubstr("{\"progress\":{\"phase\":\"LOADING\",\"done\":0,\"total\":1,\"so_far\":[]}}\n"));
  EXPECT_EQ(Variants(), "vit/:knn:k=3;");
  variants_.TellServed();
  EXPECT_THAT(connection.ReadUntil("}\n"),
              HasSubstr("{\"served\":{\"variants\":[{\"served_as\":\"variant.vit.1.knn-k-3\","
                        "\"model_name\":\"vit\",\"model_version\":\"1\","));
  connection.Close();
  variants_.AwaitCancelled();
  variants_.End(Cancelled("serve.cancelled", "gone"));
}

TEST_F(HttpServeTest, EachAttentionIsServedOverEachModelAndVariantsOneByOne) {
  StartAsking("POST /v1/serve?variant=other/3:knn:k%3D7&model=vit&model=swin/2&attention=dense",
              "");
  EXPECT_EQ(Variants(), "other/3:knn:k=7;vit/:dense;swin/2:dense;");
  variants_.End(NotFound("model.not_found", "no such model"));
  EXPECT_EQ(Answer().status, 404);
}

TEST_F(HttpServeTest, AnEndIsALine) {
  HttpConnection connection(server_->port());
  connection.Send(HttpMessage("POST /v1/serve?model=vit", ""));
  variants_.TellServed();
  EXPECT_THAT(connection.ReadUntil("}\n"), HasSubstr(" 200 OK\r\n"));
  variants_.End(Unavailable("server.draining", "stopping"));
  EXPECT_THAT(connection.ReadAll(), HasSubstr("{\"error\":\"stopping\",\"code\":\"UNAVAILABLE\","
                                              "\"reason\":\"server.draining\"}\n"));
}

// Row 91.
TEST_F(HttpServeTest, WhatCannotBeReadIsRefused) {
  const auto reason = [&](const std::string& target, const std::string& body = "") {
    return Ask("POST /v1/serve" + target, body).Reason();
  };
  EXPECT_EQ(reason("?model=vit&speed=2"), "request.option");
  EXPECT_EQ(reason("?model=vit", "a body"), "request.option");
  EXPECT_EQ(reason("?model=a&model=b&model=c&attention=a&attention=b&attention=c"),
            "serve.bad_request");
  EXPECT_EQ(reason("?model=vit&attention=" + std::string(2000, 'a')), "serve.bad_request");
  Start({});
  const HttpApiAnswer disabled = Ask("POST /v1/serve?model=vit", "");
  EXPECT_EQ(disabled.status, 501);
  EXPECT_EQ(disabled.Reason(), "serve.disabled");
}

}  // namespace
}  // namespace fovea
