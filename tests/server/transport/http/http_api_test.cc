#include "server/transport/http/http_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "tests/server/transport/http/http_api_testing.h"

namespace fovea {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string Gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

TEST_F(HttpApiTest, SaysWhetherItServes) {
  EXPECT_EQ(Ask("GET /v2/health/live").Json(), json({{"live", true}}));
  EXPECT_EQ(Ask("GET /v2/health/ready").Json(), json({{"ready", true}}));
  EXPECT_EQ(Ask("GET /v2/models/vit/ready").Json(), json({{"name", "vit"}, {"ready", true}}));
  EXPECT_EQ(Ask("GET /v2/models/vit/versions/1/ready").status, 200);
  EXPECT_EQ(Ask("GET /v2/models/other/ready").status, 503);
  EXPECT_EQ(Ask("GET /healthz").status, 200);
  EXPECT_EQ(Ask("GET /readyz").status, 200);
  api_->SetServing(false);
  EXPECT_EQ(Ask("GET /readyz").status, 503);
  const HttpApiAnswer not_ready = Ask("GET /v2/health/ready");
  EXPECT_EQ(not_ready.status, 503);
  EXPECT_EQ(not_ready.Json(), json({{"ready", false}}));
  EXPECT_EQ(not_ready.Field("Retry-After"), "1");
  EXPECT_EQ(Ask("GET /v2/health/live").status, 200);
}

// docs/faults.md, row 101.
TEST_F(HttpApiTest, SaysWhyItDoesNotServeAndNamesModelsToWhoMayListThem) {
  const ServerApiOptions options{.why_not_ready = [] {
    return NotReady{.reason = "1 of 2 models has loaded",
                    .models = {{.name = "vit", .reason = "no weights"}}};
  }};
  Start(options);
  api_->SetServing(false);
  json expected = {
      {"ready", false},
      {"reason", "1 of 2 models has loaded"},
      {"models", {{{"name", "vit"}, {"state", "UNAVAILABLE"}, {"reason", "no weights"}}}}};
  EXPECT_EQ(Ask("GET /readyz").Json(), expected);
  groups_.Remove(ApiGroup::kRepository);
  Start(options);
  api_->SetServing(false);
  expected.erase("models");
  EXPECT_EQ(Ask("GET /readyz").Json(), expected);
}

TEST_F(HttpApiTest, TellsOfTheServerAndItsModels) {
  const json server = Ask("GET /v2").Json();
  EXPECT_EQ(server["name"], "fovea");
  EXPECT_THAT(server["extensions"].dump(), HasSubstr("binary_tensor_data"));
  const json metadata = Ask("GET /v2/models/vit").Json();
  EXPECT_EQ(metadata["inputs"][0]["shape"], json({-1, 3, 224, 224}));
  EXPECT_EQ(metadata["inputs"][0]["datatype"], "FP32");
  const json config = Ask("GET /v2/models/vit/versions/1/config").Json();
  EXPECT_EQ(config["max_batch_size"], 16);
  EXPECT_EQ(config["dynamic_batching"]["max_queue_delay_microseconds"], 500);
  EXPECT_EQ(config["input"][0]["data_type"], "TYPE_FP32");
  EXPECT_EQ(Ask("GET /v2/models").Json(), json({{"models", {"vit"}}}));
  const json& policies = config["dynamic_batching"]["priority_queue_policy"];
  EXPECT_EQ(policies["3"]["timeout_action"], "DELAY");
  EXPECT_EQ(policies["1"]["allow_timeout_override"], false);
  EXPECT_EQ(config["instance_group"][0]["rate_limiter"]["priority"], 4);
  EXPECT_EQ(Ask("GET /v2/models/vit/stats").Json()["model_stats"][0]["name"], "vit");
  EXPECT_EQ(Ask("GET /v2/models/stats").Json()["model_stats"].size(), 1);
  const HttpApiAnswer unknown = Ask("GET /v2/models/other");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.Json()["code"], "NOT_FOUND");
  EXPECT_EQ(Ask("GET /v2/models/vit/versions/2").status, 404);
}

TEST_F(HttpApiTest, PathsAndMethodsThatAreNotThere) {
  for (const char* path :
       {"//", "/v2/", "/v2/model", "/v2/models/vit/infer/x", "/v3", "/metrics/x"}) {
    EXPECT_EQ(Ask(std::string("GET ") + path).status, 404) << path;
  }
  const HttpApiAnswer wrong = Ask("GET /v2/models/vit/infer");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.Field("Allow"), "POST");
  EXPECT_EQ(wrong.Json()["error"], "GET is not allowed for this path, which takes POST");
  EXPECT_EQ(Ask("DELETE /v2/trace/setting").Field("Allow"), "GET, HEAD, POST");
}

TEST_F(HttpApiTest, Row108PathsOfOtherServersSayWhereFoveaHasTheSame) {
  for (const char* path : {"POST /v1/models/vit:predict", "GET /v1/models/vit",
                           "POST /predictions/vit", "POST /invocations", "POST /predict"}) {
    const HttpApiAnswer answer = Ask(path, "{}");
    EXPECT_EQ(answer.Reason(), "http.path_unknown") << path;
    EXPECT_THAT(answer.body, HasSubstr("/v2/models/MODEL/infer")) << path;
  }
  for (const char* path : {"/ping", "/health", "/livez", "/v1/health/ready"}) {
    EXPECT_THAT(Ask(std::string("GET ") + path).body, HasSubstr("/readyz")) << path;
  }
  EXPECT_THAT(Ask("GET /other").body, HasSubstr("/openapi.json"));
  EXPECT_THAT(Ask("GET /v2/models/vit/").body, HasSubstr("slash"));
}

// The request of curl -T, which learns before the body that there is no PUT.
TEST_F(HttpApiTest, Row108AMethodThatIsNotThereIsToldBeforeTheBody) {
  const HttpApiAnswer put = Ask("PUT /v1/classify?model=vit", "",
                                "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n");
  EXPECT_EQ(put.status, 405) << put.head;
  EXPECT_EQ(put.Field("Allow"), "POST");
  EXPECT_EQ(put.Field("Connection"), "close");
  EXPECT_EQ(Ask("PUT /v1/classify?model=vit", "x").status, 405);
}

// Bodies as MLServer's types are sent.
TEST_F(HttpApiTest, Row109NullIsAsIfItWereNotThere) {
  const json input = {
      {"name", "floats"},
      {"datatype", "FP32"},
      {"shape", {1}},
      {"data", {1}},
      {"parameters",
       {{"content_type", "np"}, {"headers", nullptr}, {"binary_data_size", nullptr}}}};
  const json body = {
      {"id", nullptr}, {"parameters", nullptr}, {"outputs", nullptr}, {"inputs", {input}}};
  EXPECT_EQ(Infer(body).status, 200) << Infer(body).body;
  json named = body;
  named["parameters"] = {{"priority", nullptr}, {"binary_data_output", nullptr}};
  named["outputs"] = {{{"name", "logits"}, {"parameters", nullptr}}};
  EXPECT_EQ(Infer(named).status, 200) << Infer(named).body;
  for (const char* required : {"inputs", "name", "datatype", "shape", "data"}) {
    json lacks = body;
    (lacks.contains(required) ? lacks : lacks["inputs"][0])[required] = nullptr;
    EXPECT_EQ(Infer(lacks).status, 400) << required;
  }
}

// tritonclient.http.aio accepts compressed answers and unpacks those of inference alone.
TEST_F(HttpApiTest, OfTheProtocolOnlyInferencesAnswersAreCompressed) {
  const std::string accepts = "Accept-Encoding: gzip\r\n";
  for (const char* path : {"/v2/models/vit/config", "/v2/models/stats", "/v2/models/vit/stats"}) {
    const HttpApiAnswer answer = Ask(std::string("GET ") + path, "", accepts);
    EXPECT_EQ(answer.Field("Content-Encoding"), "") << path;
    EXPECT_EQ(answer.status, 200);
  }
  EXPECT_EQ(Ask("GET /openapi.json", "", accepts).Field("Content-Encoding"), "gzip");
}

TEST_F(HttpApiTest, Row48WhatNeedsNoKeyTakesNoLongBody) {
  for (const char* call :
       {"GET /healthz", "GET /v2/health/ready", "OPTIONS /v2/models/vit/infer"}) {
    const HttpApiAnswer refused = Ask(call, std::string(5000, 'x'));
    EXPECT_EQ(refused.status, 413) << call;
    EXPECT_EQ(refused.Reason(), "request.too_large");
    EXPECT_EQ(refused.Field("Connection"), "close");
    const HttpApiAnswer chunked = Ask(call, "", "Transfer-Encoding: chunked\r\n");
    EXPECT_EQ(chunked.status, 413) << call;
    EXPECT_NE(Ask(call, "{}").status, 413);
  }
}

TEST_F(HttpApiTest, InfersInJson) {
  const HttpApiAnswer answer = Infer(
      {{"id", "a"},
       {"parameters", {{"priority", 3}, {"timeout", 1'000'000}, {"unknown", "x"}}},
       {"inputs",
        {{{"name", "floats"},
          {"datatype", "FP32"},
          {"shape", {2, 2}},
          {"data", {{1, 0.1}, {-2e3, 4}}}},
         {{"data", {1, -2, 127}}, {"shape", {3}}, {"datatype", "INT8"}, {"name", "bytes"}},
         {{"name", "large"},
          {"datatype", "UINT64"},
          {"shape", {1}},
          {"data", {18446744073709551615U}}},
         {{"name", "truths"}, {"datatype", "BOOL"}, {"shape", {2}}, {"data", {true, 0}}},
         {{"name", "texts"}, {"datatype", "BYTES"}, {"shape", {2}}, {"data", {"a\"ä", ""}}}}}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json body = answer.Json();
  EXPECT_EQ(body["model_name"], "vit");
  EXPECT_EQ(body["model_version"], "1");
  EXPECT_EQ(body["id"], "a");
  EXPECT_EQ(body["parameters"]["fovea.batch_size"], 1);
  EXPECT_TRUE(body["parameters"].contains("fovea.compute_ns"));
  EXPECT_EQ(body["parameters"]["fovea.h2d_ns"], 11'000'000);
  EXPECT_EQ(body["parameters"]["fovea.kernels_ns"], 12'000'000);
  EXPECT_EQ(body["parameters"]["fovea.d2h_ns"], 13'000'000);
  EXPECT_EQ(body["outputs"].size(), 5);
  EXPECT_THAT(answer.body, HasSubstr("\"data\":[1,0.1,-2000,4]"));
  EXPECT_EQ(body["outputs"][0]["shape"], json({2, 2}));
  EXPECT_EQ(body["outputs"][1]["data"], json({1, -2, 127}));
  EXPECT_EQ(body["outputs"][2]["data"], json({18446744073709551615U}));
  EXPECT_EQ(body["outputs"][3]["data"], json({true, false}));
  EXPECT_EQ(body["outputs"][4]["data"], json({"a\"ä", ""}));
  EXPECT_EQ(answer.Field("X-Request-Id"), "a");
  EXPECT_THAT(answer.Field("Server-Timing"),
              AllOf(StartsWith("receive;dur="), HasSubstr("compute;dur="),
                    EndsWith("h2d;dur=11.000, kernels;dur=12.000, d2h;dur=13.000")));
  ASSERT_EQ(observer_.requests().size(), 1);
  ASSERT_TRUE(observer_.requests()[0].device_times.has_value());
  EXPECT_EQ(observer_.requests()[0].device_times->kernels, 12 * kMillisecond);
  EXPECT_EQ(observer_.requests()[0].protocol, Protocol::kHttp);
  EXPECT_EQ(observer_.requests()[0].method, "ModelInfer");
  ExpectNothingIsHeld();
}

TEST_F(HttpApiTest, InfersInBinary) {
  const float pixels[] = {1, 2, 3};
  std::string tail(reinterpret_cast<const char*>(pixels), sizeof(pixels));
  tail += std::string("\3\0\0\0abc", 7);
  const json head = {{"parameters", {{"binary_data_output", true}}},
                     {"inputs",
                      {{{"name", "x"},
                        {"datatype", "FP32"},
                        {"shape", {3}},
                        {"parameters", {{"binary_data_size", 12}}}},
                       {{"name", "y"},
                        {"datatype", "BYTES"},
                        {"shape", {1}},
                        {"parameters", {{"binary_data_size", 7}}}}}},
                     {"outputs", {{{"name", "y"}, {"parameters", {{"binary_data", false}}}}}}};
  const std::string text = head.dump();
  const std::string fields =
      "Inference-Header-Content-Length: " + std::to_string(text.size()) + "\r\n";
  const HttpApiAnswer answer = Ask("POST /v2/models/vit/versions/1/infer", text + tail, fields);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.Field("Content-Type"), "application/octet-stream");
  const size_t length = std::stoul(answer.Field("Inference-Header-Content-Length"));
  const json body = json::parse(answer.body.substr(0, length));
  EXPECT_EQ(body["outputs"][0]["parameters"]["binary_data_size"], 12);
  EXPECT_EQ(body["outputs"][1]["data"], json({"abc"}));
  EXPECT_EQ(answer.body.substr(length), tail.substr(0, 12));

  // What follows the JSON is what its inputs say.
  std::string bad_framing = tail;
  bad_framing.replace(12, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(Ask("POST /v2/models/vit/infer", text + bad_framing, fields).Reason(),
            "request.bytes_framing");
  EXPECT_EQ(Ask("POST /v2/models/vit/infer", text + tail + "x", fields).Reason(),
            "request.binary_rest");
  EXPECT_EQ(Ask("POST /v2/models/vit/infer", text + tail.substr(1), fields).Reason(),
            "request.input_size");
  for (const char* length_field : {"-1", "x", "99999999", "99999999999999999999", "1.5"}) {
    EXPECT_EQ(Ask("POST /v2/models/vit/infer", text + tail,
                  std::string("Inference-Header-Content-Length: ") + length_field + "\r\n")
                  .Reason(),
              "request.header_length")
        << length_field;
  }
}

TEST_F(HttpApiTest, Row66AnAnswerThatIsLongerThanAnAnswerMayBeIsAnError) {
  Start({}, /*max_answer_bytes=*/1000);
  const auto echo = [](int numbers) {
    return json{{"inputs",
                 {{{"name", "x"},
                   {"datatype", "FP32"},
                   {"shape", {numbers}},
                   {"data", std::vector<float>(numbers, 1)}}}}};
  };
  EXPECT_EQ(Infer(echo(1)).status, 200);
  const HttpApiAnswer refused = Infer(echo(2000));
  EXPECT_EQ(refused.status, 413);
  EXPECT_EQ(refused.Reason(), "request.answer_too_large");
}

TEST_F(HttpApiTest, BodiesMayBeCompressed) {
  const std::string request =
      R"({"inputs":[{"name":"x","datatype":"INT32","shape":[2],"data":[5,6]}]})";
  EXPECT_THAT(Ask("POST /v2/models/vit/infer", Gzip(request), "Content-Encoding: gzip\r\n").body,
              HasSubstr("[5,6]"));
  EXPECT_EQ(Ask("POST /v2/models/vit/infer", request, "Content-Encoding: gzip\r\n").Reason(),
            "request.bad_compression");
  EXPECT_EQ(Ask("POST /v2/models/vit/infer", request, "Content-Encoding: br\r\n").Reason(),
            "request.encoding");
  const HttpApiAnswer bomb = Ask("POST /v2/models/vit/infer", Gzip(std::string(20 << 20, ' ')),
                                 "Content-Encoding: gzip\r\n");
  EXPECT_EQ(bomb.status, 413);
  EXPECT_EQ(bomb.Reason(), "request.decompressed_too_large");
}

// Rows 2 and 6 to 10, 51 to 53.
TEST_F(HttpApiTest, BadRequestsAreRefusedInWords) {
  const auto input = [](const std::string& members) {
    return R"({"inputs":[{"name":"x",)" + members + "}]}";
  };
  const std::string flat = R"("datatype":"FP32","shape":[1],)";
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "request.json"},
      {"{", "request.json"},
      {"[]", "request.json"},
      {"null", "request.json"},
      {"{} {}", "request.json"},
      {"{}", "request.json"},
      {R"({"inputs":{}})", "request.json"},
      {R"({"inputs":[1]})", "request.json"},
      {R"({"inputs":[],"inputs":[]})", "request.json"},
      {R"({"id":"a","id":"b","inputs":[]})", "request.json"},
      {R"({"id":1,"inputs":[]})", "request.json"},
      {R"({"id":")" + std::string(2000, 'i') + R"(","inputs":[]})", "request.id"},
      {std::string(100'000, '['), "request.json"},
      {input(R"("datatype":"FP32","shape":[1],"data":)" + std::string(100'000, '[')),
       "request.json"},
      {input(R"("datatype":"FP32","shape":[1],"data":[[[[[[[[[[1]]]]]]]]]])"),
       "request.contents_type"},
      {input(flat + R"("data":[1e400])"), "request.contents_type"},
      {input(flat + R"("data":[NaN])"), "request.json"},
      {input(flat + R"("data":["1"])"), "request.contents_type"},
      {input(flat + R"("data":[null])"), "request.contents_type"},
      {input(flat + R"("data":[1,2])"), "request.contents_count"},
      {input(flat + R"("data":[])"), "request.contents_count"},
      {input(R"("datatype":"FP32","shape":[1])"), "request.contents_count"},
      {input(flat + R"("data":[1],"data":[2])"), "request.json"},
      {input(R"("datatype":"INT64","shape":[1],"data":[1.0])"), "request.contents_type"},
      {input(R"("datatype":"INT64","shape":[1],"data":[9223372036854775808])"),
       "request.contents_type"},
      {input(R"("datatype":"UINT8","shape":[1],"data":[256])"), "request.contents_type"},
      {input(R"("datatype":"BOOL","shape":[1],"data":[2])"), "request.contents_type"},
      {input(R"("datatype":"FP16","shape":[1],"data":[1])"), "request.contents_type"},
      {input(R"("datatype":"FP31","shape":[1],"data":[1])"), "request.datatype"},
      {input(R"("datatype":"FP32","shape":[-1],"data":[1])"), "request.shape"},
      {input(R"("datatype":"FP32","shape":[0],"data":[])"), "request.shape"},
      {input(R"("datatype":"FP32","shape":[4294967296,4294967296],"data":[1])"), "request.shape"},
      {input(R"("datatype":"FP32","shape":[4000000],"data":[1])"), "request.contents_count"},
      {input(R"("datatype":"FP32","shape":[1.5],"data":[1])"), "request.json"},
      {input(R"("datatype":"FP32","shape":[1,1,1,1,1,1,1,1,1],"data":[1])"), "request.shape"},
      {input(R"("datatype":"BYTES","shape":[1],"data":["\ud800"])"), "request.contents_type"},
      {input("\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"\xff\"]"), "request.json"},
      {input(flat + R"("data":[1],"parameters":{"binary_data_size":4})"), "request.two_contents"},
      {input(flat + R"("parameters":{"binary_data_size":-4})"), "request.parameter"},
      {input(flat + R"("parameters":{"binary_data_size":4294967296})"), "request.input_size"},
      {input(flat + R"("parameters":{"shared_memory_region":"r"})"), "request.shared_memory"},
      {input(flat + R"("parameters":{"image_url":"http://x"})"), "request.url"},
      {R"({"inputs":[{"name":"x","datatype":"INT8","shape":[1],"data":[1]},)"
       R"({"name":"x","datatype":"INT8","shape":[1],"data":[1]}]})",
       "request.input_duplicate"},
      {R"({"outputs":[{"name":"o"},{"name":"o"}],"inputs":[]})", "request.output_duplicate"},
      {R"({"parameters":{"timeout":1.5},"inputs":[]})", "request.parameter"},
      {R"({"parameters":{"priority":-1},"inputs":[]})", "request.parameter"},
  };
  for (const auto& [request, reason] : bad) {
    const HttpApiAnswer answer =
        Ask("POST /v2/models/vit/infer", request, "Content-Type: application/json\r\n");
    EXPECT_EQ(answer.Reason(), reason) << request.substr(0, 200) << "\n" << answer.body;
    EXPECT_EQ(answer.status, reason == "request.shared_memory" ? 501 : 400);
  }
  const std::string numbers = std::string(5 << 20, '1');
  const HttpApiAnswer long_list =
      Ask("POST /v2/models/vit/infer",
          input(R"("datatype":"INT8","shape":[4194305],"data":[)" + numbers + "]"));
  EXPECT_EQ(long_list.Reason(), "request.contents_too_large");
  EXPECT_EQ(long_list.status, 413);
  std::string many = R"({"inputs":[)";
  for (int i = 0; i < 65; ++i) {
    many += absl::StrCat(i == 0 ? "" : ",", R"({"name":"i)", i,
                         R"(","datatype":"INT8","shape":[1],"data":[1]})");
  }
  EXPECT_EQ(Ask("POST /v2/models/vit/infer", many + "]}").Reason(), "request.input_count");
  ExpectNothingIsHeld();
}

TEST_F(HttpApiTest, WhatJsonCannotSayIsAskedForInBinary) {
  const float nan[] = {NAN};
  const std::string text =
      R"({"inputs":[{"name":"x","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]})";
  const std::string tail(reinterpret_cast<const char*>(nan), sizeof(nan));
  const std::string fields =
      "Inference-Header-Content-Length: " + std::to_string(text.size()) + "\r\n";
  EXPECT_EQ(Ask("POST /v2/models/vit/infer", text + tail, fields).Reason(), "request.output_form");
}

TEST_F(HttpApiTest, AnIdDoesNotEndALineOfTheAnswersHead) {
  const HttpApiAnswer answer =
      Infer({{"id", "a\r\nX: y"},
             {"inputs", {{{"name", "x"}, {"datatype", "INT8"}, {"shape", {1}}, {"data", {1}}}}}});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.Json()["id"], "a\r\nX: y");
  EXPECT_EQ(answer.Field("X"), "");
  EXPECT_EQ(answer.Field("X-Request-Id"), "");
}

TEST_F(HttpApiTest, JsonThatNeverFitsIsNotToBeTriedAgain) {
  Start({.request_bytes = 1 << 20});
  const std::string request =
      R"({"inputs":[{"name":"x","datatype":"INT8","shape":[1],"data":[1]}]})";
  EXPECT_EQ(Ask("POST /v2/models/vit/infer", request).status, 200);
  const HttpApiAnswer large = Ask("POST /v2/models/vit/infer", request + std::string(500'000, ' '));
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(large.Reason(), "request.memory");
}

TEST_F(HttpApiTest, ErrorsHaveTheirStatus) {
  const json request = {
      {"id", "e"},
      {"inputs", {{{"name", "x"}, {"datatype", "INT8"}, {"shape", {1}}, {"data", {1}}}}}};
  const std::vector<std::pair<absl::Status, int>> cases = {
      {InvalidArgument("image.truncated", "w"), 400},
      {InvalidArgument("image.unsupported_type", "w"), 415},
      {MakeError(absl::StatusCode::kUnauthenticated, "a.b", "w"), 401},
      {MakeError(absl::StatusCode::kPermissionDenied, "a.b", "w"), 403},
      {FailedPrecondition("model.task", "w"), 400},
      {NotFound("model.unknown", "w"), 404},
      {ResourceExhausted("image.too_large", "w"), 413},
      {Unimplemented("x.y", "w"), 501},
      {Unavailable("queue.full", "w"), 503},
      {DeadlineExceeded("queue.deadline", "w"), 504},
      {Internal("model.nan", "w"), 500},
  };
  for (const auto& [status, code] : cases) {
    inference_.FailWith(status);
    const HttpApiAnswer answer = Infer(request);
    EXPECT_EQ(answer.status, code) << status;
    EXPECT_EQ(answer.Json()["error"], "w");
    EXPECT_EQ(answer.Json()["id"], "e");
    EXPECT_EQ(answer.Reason(), ReasonOf(status));
    EXPECT_EQ(answer.Field("Retry-After"), code == 503 ? "1" : "") << status;
  }
}

TEST_F(HttpApiTest, PicturesAreClassifiedFromABodyOrAForm) {
  const HttpApiAnswer answer = Ask("POST /v1/classify?model=vit&top_k=3&id=me", "a picture");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json body = answer.Json();
  EXPECT_EQ(body["results"][0]["classes"][0]["label"], "seven");
  EXPECT_THAT(answer.body, HasSubstr("\"confidence\":0.5"));
  EXPECT_EQ(body["attention"], "dense");
  EXPECT_EQ(body["untrained"], false);
  EXPECT_EQ(body["receipt"]["batch_size"], 1);
  EXPECT_EQ(body["receipt"]["h2d_ns"], 11'000'000);
  EXPECT_EQ(body["receipt"]["kernels_ns"], 12'000'000);
  EXPECT_EQ(body["receipt"]["d2h_ns"], 13'000'000);
  EXPECT_EQ(answer.Field("X-Request-Id"), "me");

  const std::string form =
      "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"x.png\"\r\n"
      "Content-Type: image/png\r\n\r\none\r\n--not the end\r\n"
      "--b\r\nContent-Disposition: form-data; name=model\r\n\r\nvit\r\n"
      "--b\r\ncontent-disposition: form-data; name=\"images[1]\"\r\n\r\ntwo\r\n--b--\r\n";
  const std::string type = "Content-Type: multipart/form-data; boundary=b\r\n";
  inference_.Hold();
  std::thread asking(
      [&] { EXPECT_EQ(Ask("POST /v1/segment?map_format=RUN_LENGTHS", form, type).status, 200); });
  FakeInference::Held held = inference_.Take();
  const auto& files = std::get<ImageFiles>(held.request->input).files;
  std::vector<std::string> texts;
  for (const ScatteredBytes& file : files) {
    texts.emplace_back(file.size(), '\0');
    file.CopyTo(0, file.size(), texts.back().data());
  }
  EXPECT_THAT(texts, ElementsAre("one\r\n--not the end", "two"));
  EXPECT_EQ(std::get<SegmentOptions>(held.request->options).format, MapFormat::kRunLengths);
  held.Answer();
  asking.join();
}

TEST_F(HttpApiTest, TheWholeBodyMayBeAnImageOfTheProtocol) {
  inference_.Hold();
  std::thread asking([&] {
    Ask("POST /v2/models/vit/infer", "picture",
        "Inference-Header-Content-Length: 0\r\nX-Request-Id: mine\r\n");
  });
  FakeInference::Held held = inference_.Take();
  const auto& files = std::get<ImageFiles>(held.request->input).files;
  ASSERT_EQ(files.size(), 1);
  EXPECT_EQ(files[0].size(), 7);
  EXPECT_EQ(held.request->id, "mine");
  EXPECT_TRUE(std::get<WantedTensors>(held.request->options).outputs.empty());
  held.Fail(Internal("a.b", "c"));
  asking.join();
  EXPECT_EQ(Ask("POST /v2/models/vit/infer", "", "Inference-Header-Content-Length: 0\r\n").Reason(),
            "request.no_image");
}

TEST_F(HttpApiTest, BadPicturesAndOptionsAreRefusedInWords) {
  const std::string type = "Content-Type: multipart/form-data; boundary=b\r\n";
  const auto reason = [&](const std::string& query, const std::string& body,
                          const std::string& fields = "") {
    const HttpApiAnswer answer = Ask("POST /v1/detect" + query, body, fields);
    EXPECT_EQ(answer.status, answer.Reason() == "model.unknown" ? 404 : 400) << answer.body;
    return answer.Reason();
  };
  EXPECT_EQ(reason("", "x"), "request.no_model");
  EXPECT_EQ(reason("?model=vit", ""), "request.no_image");
  EXPECT_EQ(reason("?model=vit&score_threshold=2", "x"), "request.score_threshold");
  EXPECT_EQ(reason("?model=vit&score_threshold=nan", "x"), "request.score_threshold");
  EXPECT_EQ(reason("?model=vit&score_threshold=much", "x"), "request.option");
  EXPECT_EQ(reason("?model=vit&mask_format=GIF", "x"), "request.option");
  EXPECT_EQ(reason("?model=vit&images=x", "x"), "request.option");
  EXPECT_EQ(reason("?model=vit&top_k=1", "x"), "request.option");
  EXPECT_EQ(reason("?model=vit&timeout_us=soon", "x"), "request.parameter");
  EXPECT_EQ(reason("?model=vit&id=" + std::string(2000, 'i'), "x"), "request.id");
  const HttpApiAnswer options = Ask("POST /v1/detect?model=vit",
                                    "--b\r\nContent-Disposition: form-data; name=classes\r\n\r\n" +
                                        std::string(300'000, 'c') + "\r\n--b--",
                                    type);
  EXPECT_EQ(options.Reason(), "request.header_too_large");
  for (const size_t bytes : {10, 300'000}) {  // Row 108
    const HttpApiAnswer file =
        Ask("POST /v1/detect?model=vit",
            "--b\r\nContent-Disposition: form-data; name=file; filename=x.jpg\r\n\r\n" +
                std::string(bytes, 'c') + "\r\n--b--",
            type);
    EXPECT_EQ(file.status, 400);
    EXPECT_THAT(file.body, HasSubstr("parts called 'image'"));
  }
  EXPECT_EQ(reason("?model=vit", "x", type), "request.form");
  EXPECT_EQ(reason("?model=vit", "--b\r\n\r\nx\r\n--b--", type), "request.form");
  EXPECT_EQ(
      reason("?model=vit", "--b\r\nContent-Disposition: form-data; name=image\r\n\r\nx", type),
      "request.form");
  EXPECT_EQ(reason("?model=vit", "--b", "Content-Type: multipart/form-data\r\n"), "request.form");
  EXPECT_EQ(reason("?model=vit", "--b--", type), "request.no_image");
}

TEST_F(HttpApiTest, ACallerThatGoesCancelsItsRequest) {
  inference_.Hold();
  HttpConnection connection(server_->port());
  connection.Send(HttpMessage("POST /v1/classify?model=vit", "picture"));
  FakeInference::Held held = inference_.Take();
  EXPECT_FALSE(held.request->cancellation->Cancelled());
  connection.Close();
  while (!held.request->cancellation->Cancelled()) std::this_thread::yield();
  held.Fail(Cancelled("request.cancelled", "gone"));
  held.request.reset();
  ExpectNothingIsHeld();
}

TEST_F(HttpApiTest, ACallerThatHasEndedItsHalfIsAnswered) {
  Start({}, limits::kMaxAnswerBytes, /*threads=*/1);
  inference_.Hold();
  for (const std::string version : {"1.0", "1.1"}) {
    HttpConnection connection(server_->port());
    connection.Send("POST /v1/classify?model=vit HTTP/" + version +
                    "\r\nHost: x\r\nContent-Length: 7\r\n\r\npicture");
    FakeInference::Held held = inference_.Take();
    connection.EndSending();
    connection.AwaitArrived();
    // The thread answers this one when it has seen the end.
    EXPECT_EQ(Ask("GET /v2/health/live").status, 200);
    if (version == "1.1") {
      // The server asks whether anybody is there, and whoever is says nothing.
      EXPECT_EQ(connection.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
    }
    EXPECT_FALSE(held.request->cancellation->Cancelled()) << version;
    held.Answer();
    EXPECT_THAT(connection.ReadAll(),
                AllOf(StartsWith("HTTP/1.1 200 OK"), HasSubstr("\r\nConnection: close\r\n"),
                      HasSubstr("\"model_name\":\"vit\"")));
  }
}

TEST_F(HttpApiTest, ADrainAnswersWhatItHasAndRefusesTheRest) {
  inference_.Hold();
  HttpConnection connection(server_->port());
  connection.Send(HttpMessage("POST /v1/classify?model=vit", "picture"));
  FakeInference::Held held = inference_.Take();
  std::thread draining([&] {
    Transport* const transports[] = {server_.get()};
    EXPECT_EQ(api_->Drain(transports, 60 * kSecond), 0);
  });
  while (!api_->gate().closed()) std::this_thread::yield();
  const HttpApiAnswer refused = Ask("POST /v1/classify?model=vit", "picture");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.Field("Retry-After"), "1");
  held.Answer();
  EXPECT_THAT(connection.ReadAll(), StartsWith("HTTP/1.1 200 "));
  draining.join();
}

// Without a collector a caller's context is answered as it came, where it is one.
TEST_F(HttpApiTest, ATraceContextIsPassedOn) {
  const std::string infer = "POST /v2/models/vit/infer";
  const std::string parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  EXPECT_EQ(Ask(infer, "{", "traceparent: " + parent + "\r\n").Field("traceparent"), parent);
  EXPECT_EQ(Ask(infer, "{", "traceparent: junk\r\n").Field("traceparent"), "");
  EXPECT_EQ(Ask(infer, "{").Field("traceparent"), "");
}

}  // namespace
}  // namespace fovea
