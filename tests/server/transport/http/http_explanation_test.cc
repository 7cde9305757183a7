// POST /v1/explain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"
#include "tests/server/api/fake_explanations.h"
#include "tests/server/transport/http/http_experiment_testing.h"

namespace fovea {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HttpExplanationTest : public HttpExperimentTest {
 protected:
  HttpExplanationTest() { Start({.explanations = &explanations_}); }

  FakeExplanations explanations_;
};

TEST_F(HttpExplanationTest, AFormIsReadAsItIsMeant) {
  StartAsking("POST /v1/explain?method=maps&method=ROLLOUT",
              Part("image", "picture") + Part("model", "vit") + Part("version", "2") +
                  Part("attention", "knn:k=3") + Part("layer", "3") + Part("layer", "0") +
                  Part("head", "1") + Part("x", "12.5") + Part("y", "7") +
                  Part("target_class", "4") + Part("picture_form", "heat") + Part("id", "e7") +
                  "--b--\r\n",
              kForm);
  const ExplainRequest& request = explanations_.request();
  EXPECT_EQ(request.variant.model_name, "vit");
  EXPECT_EQ(request.variant.model_version, "2");
  EXPECT_EQ(request.variant.attention, "knn:k=3");
  EXPECT_EQ(request.image, "picture");
  EXPECT_EQ(request.id, "e7");
  EXPECT_THAT(request.methods, ElementsAre(ExplainMethod::kMaps, ExplainMethod::kRollout));
  EXPECT_THAT(request.layers, ElementsAre(3, 0));
  EXPECT_THAT(request.heads, ElementsAre(1));
  EXPECT_EQ(request.place->x, 12.5);
  EXPECT_EQ(request.place->y, 7);
  EXPECT_EQ(request.target_class, 4);
  EXPECT_EQ(request.form, PictureForm::kHeat);
  EXPECT_EQ(api_->memory().held(), 7) << "the image, until the explanation is there";
  explanations_.Answer(FakeExplanations::Example(1));
  EXPECT_EQ(Answer().status, 200);
  ExpectNothingIsHeld();
}

TEST_F(HttpExplanationTest, TheAnswerIsJsonWithBase64) {
  StartAsking("POST /v1/explain?model=vit&method=maps", "picture");
  explanations_.Answer(FakeExplanations::Example(2));
  const HttpApiAnswer& answer = Answer();
  EXPECT_EQ(answer.Field("Content-Type"), "application/json");
  const json explanation = answer.Json();
  EXPECT_EQ(explanation["id"], "e1");
  EXPECT_EQ(explanation["weights_of_attention"], "dense");
  EXPECT_EQ(explanation["target_label"], "cat");
  EXPECT_EQ(explanation["width"], 64);
  const json& map = explanation["maps"][1];
  EXPECT_EQ(map["method"], "MAPS");
  EXPECT_EQ(map["layer_number"], 1);
  EXPECT_FALSE(map.contains("head"));
  EXPECT_EQ(map["values"], (json{0.25, 0.75}));
  EXPECT_EQ(map["png"], "cG5nMQ==");
  EXPECT_EQ(explanation["measures"][0]["nonlocality"], (json{1.5, 2.5}));
  EXPECT_FALSE(explanation["measures"][1].contains("attention_standard_deviation"));
}

TEST_F(HttpExplanationTest, OnePictureMayComeAsItIs) {
  StartAsking("POST /v1/explain?model=vit&method=rollout", "picture", "Accept: image/png\r\n");
  explanations_.Answer(FakeExplanations::Example(1));
  const HttpApiAnswer& answer = Answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Field("Content-Type"), "image/png");
  EXPECT_EQ(answer.body, "png0");
}

TEST_F(HttpExplanationTest, SeveralPicturesAreNoPng) {
  StartAsking("POST /v1/explain?model=vit&method=maps", "picture", "Accept: image/png\r\n");
  explanations_.Answer(FakeExplanations::Example(2));
  const HttpApiAnswer& answer = Answer();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.Reason(), "explain.not_one_picture");
  EXPECT_THAT(answer.body, HasSubstr("makes 2"));
}

// Row 85.
TEST_F(HttpExplanationTest, WhatCannotBeReadIsRefused) {
  for (const char* query : {"method=dreams", "layer=first", "x=left", "image=3", "variant=3"}) {
    const HttpApiAnswer answer = Ask("POST /v1/explain?model=vit&" + std::string(query), "picture");
    EXPECT_EQ(answer.status, 400) << query;
    EXPECT_EQ(answer.Reason(), "request.option") << query;
  }
  EXPECT_EQ(Ask("POST /v1/explain?model=vit&method=maps&x=3", "picture").Reason(),
            "explain.bad_request");
  EXPECT_EQ(Ask("POST /v1/explain?model=vit&method=maps").Reason(), "explain.bad_request");
  ExpectNothingIsHeld();
}

TEST_F(HttpExplanationTest, TheServersExtensionsNameIt) {
  EXPECT_THAT(Ask("GET /v2").Json()["extensions"].dump(), HasSubstr("\"experiments\""));
}

TEST_F(HttpExplanationTest, AnErrorHasItsStatus) {
  StartAsking("POST /v1/explain?model=vit&method=rollout", "picture");
  explanations_.Answer(FailedPrecondition("explain.unfit", "rollout is not defined for swin"));
  const HttpApiAnswer& answer = Answer();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.Reason(), "explain.unfit");
}

TEST_F(HttpExplanationTest, ACallerWhoGoesCancels) {
  {
    HttpConnection connection(server_->port());
    connection.Send(HttpMessage("POST /v1/explain?model=vit&method=maps", "picture"));
    explanations_.request();
  }
  explanations_.AwaitCancelled();
  explanations_.Answer(Cancelled("explain.cancelled", "gone"));
}

TEST_F(HttpExplanationTest, AServerWithoutExperimentsSaysSo) {
  Start({});
  const HttpApiAnswer answer = Ask("POST /v1/explain?model=vit&method=maps", "picture");
  EXPECT_EQ(answer.status, 501);
  EXPECT_EQ(answer.Reason(), "explain.disabled");
}

}  // namespace
}  // namespace fovea
