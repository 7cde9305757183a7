// POST /v1/compare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "tests/server/api/fake_comparisons.h"
#include "tests/server/transport/http/http_experiment_testing.h"

namespace fovea {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HttpComparisonTest : public HttpExperimentTest {
 protected:
  HttpComparisonTest() { Start({.comparisons = &comparisons_}); }
  std::string Variants() {
    std::string text;
    for (const Variant& variant : comparisons_.request().variants) {
      text += variant.model_name + "/" + variant.model_version + ":" + variant.attention + ";";
    }
    return text;
  }

  FakeComparisons comparisons_;
};

TEST_F(HttpComparisonTest, AFormIsReadAsItIsMeant) {
  StartAsking("POST /v1/compare?rounds=30",
              Part("image", "first") + Part("model", "vit/2") + Part("attention", "knn:k=3") +
                  Part("attention", "dense") + Part("image", "second") + Part("batch_size", "4") +
                  Part("max_time_us", "5000000") + Part("id", "c7") + "--b--\r\n",
              kForm);
  EXPECT_EQ(Variants(), "vit/2:knn:k=3;vit/2:dense;");
  const CompareRequest& request = comparisons_.request();
  EXPECT_THAT(request.images, ElementsAre("first", "second"));
  EXPECT_EQ(request.rounds, 30);
  EXPECT_EQ(request.max_rounds, 300);
  EXPECT_EQ(request.batch_size, 4);
  EXPECT_EQ(request.max_time, 5 * kSecond);
  EXPECT_EQ(request.id, "c7");
  EXPECT_EQ(api_->memory().held(), 11) << "the images, until it is over";
  comparisons_.Answer(FakeComparisons::Example());
  EXPECT_EQ(Answer().status, 200);
  ExpectNothingIsHeld();
}

TEST_F(HttpComparisonTest, ABodyIsOneImageAndOfOneAttentionTheModelAsItIsComesFirst) {
  StartAsking("POST /v1/compare?model=vit&attention=knn:k%3D3", "picture");
  EXPECT_EQ(Variants(), "vit/:;vit/:knn:k=3;");
  EXPECT_THAT(comparisons_.request().images, ElementsAre("picture"));
  comparisons_.Answer(FakeComparisons::Example());
  const HttpApiAnswer& answer = Answer();
  EXPECT_EQ(answer.Field("Content-Type"), "application/x-ndjson");
  const json comparison = answer.Json()["comparison"];
  EXPECT_EQ(comparison["id"], "c1");
  EXPECT_EQ(comparison["images"][0]["width"], 64);
  const json& other = comparison["variants"][1];
  EXPECT_EQ(other["weights_of_attention"], "dense");
  EXPECT_EQ(other["compute"]["ratio"]["upper"], 1.75);
  EXPECT_EQ(other["compute"]["verdict"], "WIDE");
  EXPECT_EQ(other["classes"]["kl_divergence"], 0.25);
  EXPECT_EQ(other["answers"][0]["label"], "cat");
  EXPECT_FALSE(other.contains("objects"));
}

TEST_F(HttpComparisonTest, VariantsMayBeNamedOneByOne) {
  StartAsking("POST /v1/compare?variant=vit&variant=vit/2:knn:k%3D3&variant=other:", "picture");
  EXPECT_EQ(Variants(), "vit/:;vit/2:knn:k=3;other/:;");
  comparisons_.Answer(FakeComparisons::Example());
  EXPECT_EQ(Answer().status, 200);
}

TEST_F(HttpComparisonTest, ProgressComesAsItGoes) {
  HttpConnection connection(server_->port());
  connection.Send(HttpMessage("POST /v1/compare?model=vit&attention=dense", "picture"));
  comparisons_.Tell(1, 20);
  EXPECT_THAT(connection.ReadUntil("}\n"),
              HasSubstr("{\"progress\":{\"phase\":\"MEASURING\",\"done\":1,\"total\":20,"
                        "\"so_far\":[]}}\n"));
  comparisons_.Tell(2, 20, {{.compute_ms = {1, 2, 3}}, {.compute_ms = {4, 5, 6}, .ratio = 2.5}});
  EXPECT_THAT(connection.ReadUntil("}\n"),
              AllOf(HasSubstr("\"done\":2,"),
                    HasSubstr("\"so_far\":[{\"compute_ms\":{\"lower\":1,\"median\":2,\"upper\":3},"
                              "\"ratio\":1},{\"compute_ms\":{\"lower\":4,\"median\":5,"
                              "\"upper\":6},\"ratio\":2.5}]")));
  comparisons_.Answer(FakeComparisons::Example());
  const std::string rest = connection.ReadAll();
  EXPECT_THAT(rest, HasSubstr("{\"comparison\":{\"id\":\"c1\""));
  EXPECT_THAT(rest, ::testing::EndsWith("}\n\r\n0\r\n\r\n"));
}

TEST_F(HttpComparisonTest, WhatFailsAtOnceHasItsStatus) {
  StartAsking("POST /v1/compare?model=vit&attention=dense", "picture");
  comparisons_.Answer(NotFound("model.not_found", "no such model"));
  const HttpApiAnswer& answer = Answer();
  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.Reason(), "model.not_found");
}

TEST_F(HttpComparisonTest, WhatFailsLaterHasALine) {
  HttpConnection connection(server_->port());
  connection.Send(HttpMessage("POST /v1/compare?model=vit&attention=dense", "picture"));
  comparisons_.Tell(1, 20);
  EXPECT_THAT(connection.ReadUntil("}\n"), HasSubstr(" 200 OK\r\n"));
  comparisons_.Answer(Unavailable("server.draining", "stopping"));
  EXPECT_THAT(connection.ReadAll(), HasSubstr("{\"error\":\"stopping\",\"code\":\"UNAVAILABLE\","
                                              "\"reason\":\"server.draining\"}\n"));
}

TEST_F(HttpComparisonTest, ACallerWhoGoesEndsIt) {
  HttpConnection connection(server_->port());
  connection.Send(HttpMessage("POST /v1/compare?model=vit&attention=dense", "picture"));
  comparisons_.request();
  connection.Close();
  comparisons_.AwaitCancelled();
  comparisons_.Answer(Cancelled("compare.cancelled", "gone"));
}

// Row 83.
TEST_F(HttpComparisonTest, WhatCannotBeReadIsRefused) {
  const auto reason = [&](const std::string& target, const std::string& body = "picture",
                          const std::string& fields = "") {
    return Ask("POST /v1/compare" + target, body, fields).Reason();
  };
  EXPECT_EQ(reason("?model=vit&speed=2"), "request.option");
  EXPECT_EQ(reason("?model=vit&rounds=many"), "request.option");
  EXPECT_EQ(reason("?model=vit&images=x"), "request.option");
  EXPECT_EQ(reason("?model=vit&variants=x"), "request.option");
  EXPECT_EQ(reason("?model=vit&rounds=-1"), "compare.bad_request");
  EXPECT_EQ(reason("?model=vit&model=vit&model=vit&attention=a&attention=b&attention=c"),
            "compare.bad_request");
  EXPECT_EQ(reason("?model=a&variant=a&variant=a&variant=a&variant=a&variant=a&variant=a&variant=a"
                   "&attention=b"),
            "compare.bad_request");
  EXPECT_EQ(reason("?model=vit", "--b\r\nno form", kForm), "request.form");
  EXPECT_EQ(reason("?model=vit", "x", "Content-Encoding: br\r\n"), "request.encoding");
  EXPECT_EQ(reason("?model=vit&attention=" + std::string(2000, 'a')), "compare.bad_request");
  Start({});
  const HttpApiAnswer disabled = Ask("POST /v1/compare?model=vit&attention=dense", "picture");
  EXPECT_EQ(disabled.status, 501);
  EXPECT_EQ(disabled.Reason(), "compare.disabled");
}

}  // namespace
}  // namespace fovea
