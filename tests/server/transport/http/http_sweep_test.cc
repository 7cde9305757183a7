// POST /v1/sweep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "tests/server/api/fake_sweeps.h"
#include "tests/server/transport/http/http_experiment_testing.h"

namespace fovea {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HttpSweepTest : public HttpExperimentTest {
 protected:
  HttpSweepTest() { Start({.sweeps = &sweeps_}); }
  std::string Variants() {
    std::string text;
    for (const Variant& variant : sweeps_.request().variants) {
      text += variant.model_name + "/" + variant.model_version + ":" + variant.attention + ";";
    }
    return text;
  }

  FakeSweeps sweeps_;
};

TEST_F(HttpSweepTest, AFormIsReadAsItIsMeant) {
  StartAsking("POST /v1/sweep?over=k&values=16,32&values=64",
              Part("image", "first") + Part("model", "vit/2") + Part("attention", "knn") +
                  Part("attention", "knn:exact") + Part("rounds", "7") + Part("batch_size", "4") +
                  Part("threads", "3") + Part("max_time_us", "5000000") + Part("id", "s7") +
                  "--b--\r\n",
              kForm);
  EXPECT_EQ(Variants(), "vit/2:knn;vit/2:knn:exact;");
  const SweepRequest& request = sweeps_.request();
  EXPECT_EQ(request.axis, SweepAxis::kK);
  EXPECT_THAT(request.values, ElementsAre("16", "32", "64"));
  EXPECT_EQ(request.image, "first");
  EXPECT_EQ(request.rounds, 7);
  EXPECT_EQ(request.batch_size, 4);
  EXPECT_EQ(request.threads, 3);
  EXPECT_EQ(request.max_time, 5 * kSecond);
  EXPECT_EQ(request.id, "s7");
  EXPECT_EQ(api_->memory().held(), 5) << "the image, until it is over";
  sweeps_.Answer(FakeSweeps::Example());
  EXPECT_EQ(Answer().status, 200);
  ExpectNothingIsHeld();
}

TEST_F(HttpSweepTest, WithoutAnImageTheServersNoiseIsMeantAndOfOneAttentionItAlone) {
  StartAsking("POST /v1/sweep?model=vit&attention=dense&over=RESOLUTION&values=64", "");
  EXPECT_EQ(Variants(), "vit/:dense;");
  EXPECT_EQ(sweeps_.request().image, "");
  EXPECT_EQ(sweeps_.request().rounds, 20);
  sweeps_.Answer(FakeSweeps::Example());
  const HttpApiAnswer& answer = Answer();
  EXPECT_EQ(answer.Field("Content-Type"), "application/x-ndjson");
  const json sweep = answer.Json()["sweep"];
  EXPECT_EQ(sweep["id"], "s1");
  EXPECT_EQ(sweep["over"], "K");
  EXPECT_EQ(sweep["places"][1], 32);
  const json& curve = sweep["curves"][0];
  EXPECT_EQ(curve["weights_of_attention"], "dense");
  EXPECT_EQ(curve["compute_exponent"]["exponent"]["upper"], 1.75);
  EXPECT_EQ(curve["compute_exponent"]["points"], 3);
  EXPECT_FALSE(curve.contains("peak_exponent"));
  EXPECT_EQ(curve["points"][0]["compute_ms"]["median"], 2);
  EXPECT_EQ(curve["points"][0]["compute_estimate_ms"]["lower"], 1.5);
  EXPECT_EQ(curve["points"][0]["peak_bytes"], int64_t{5} << 32);
  EXPECT_EQ(curve["points"][1]["failure"], "65 keys are too few");
  EXPECT_FALSE(curve["points"][1].contains("compute_ms"));
}

TEST_F(HttpSweepTest, ProgressComesAsItGoesAndWhatFailsLaterHasALine) {
  HttpConnection connection(server_->port());
  connection.Send(HttpMessage("POST /v1/sweep?model=vit&over=batch&values=1,2", "picture"));
  sweeps_.Tell(1, 20);
  EXPECT_THAT(
      connection.ReadUntil("}\n"),
      HasSubstr(
          "{\"progress\":{\"phase\":\"MEASURING\",\"done\":1,\"total\":20,\"so_far\":[]}}\n"));
  sweeps_.Answer(Unavailable("server.draining", "stopping"));
  EXPECT_THAT(connection.ReadAll(), HasSubstr("{\"error\":\"stopping\",\"code\":\"UNAVAILABLE\","
                                              "\"reason\":\"server.draining\"}\n"));
}

// Row 88.
TEST_F(HttpSweepTest, ACallerWhoGoesEndsIt) {
  HttpConnection connection(server_->port());
  connection.Send(HttpMessage("POST /v1/sweep?model=vit&over=batch&values=1,2", "picture"));
  sweeps_.request();
  connection.Close();
  sweeps_.AwaitCancelled();
  sweeps_.Answer(Cancelled("compare.cancelled", "gone"));
}

// Row 87.
TEST_F(HttpSweepTest, WhatCannotBeReadIsRefused) {
  const auto reason = [&](const std::string& target, const std::string& body = "picture",
                          const std::string& fields = "") {
    return Ask("POST /v1/sweep" + target, body, fields).Reason();
  };
  EXPECT_EQ(reason("?model=vit&values=1"), "sweep.bad_request");
  EXPECT_EQ(reason("?model=vit&over=colour&values=1"), "request.option");
  EXPECT_EQ(reason("?model=vit&over=AXIS_UNSPECIFIED&values=1"), "sweep.bad_request");
  EXPECT_EQ(reason("?model=vit&over=batch&places=1"), "request.option");
  EXPECT_EQ(reason("?model=vit&over=batch&rounds=-1"), "sweep.bad_request");
  EXPECT_EQ(reason("?model=vit&over=batch&values=" + std::string(100, '1')), "sweep.bad_request");
  EXPECT_EQ(reason("?model=vit&over=k&attention=" + std::string(2000, 'a')), "sweep.bad_request");
  EXPECT_EQ(reason("?model=a&model=b&model=c&over=k&attention=a&attention=b&attention=c"),
            "sweep.bad_request");
  EXPECT_EQ(reason("?model=vit&over=batch&values=1",
                   Part("image", "a") + Part("image", "b") + "--b--\r\n", kForm),
            "sweep.bad_request");
  Start({});
  const HttpApiAnswer disabled = Ask("POST /v1/sweep?model=vit&over=batch&values=1", "picture");
  EXPECT_EQ(disabled.status, 501);
  EXPECT_EQ(disabled.Reason(), "sweep.disabled");
}

}  // namespace
}  // namespace fovea
