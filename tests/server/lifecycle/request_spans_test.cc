#include "server/lifecycle/request_spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace fovea {
namespace {

std::map<std::string_view, AttributeValue> AttributesOf(const Span& span) {
  return {span.attributes.begin(), span.attributes.end()};
}
std::string Text(const Span& span, std::string_view name) {
  return std::get<std::string>(AttributesOf(span).at(name));
}

AnsweredRequest Request(Protocol protocol, absl::StatusCode code, std::string_view reason = "") {
  AnsweredRequest request{.protocol = protocol, .method = "ModelInfer"};
  request.code = code;
  request.reason = reason;
  request.stages = StageTimes(1000);
  request.stages.EndStage(Stage::kReceive, 1010);
  request.stages.EndStage(Stage::kQueue, 1050);
  request.ended = 1060;
  request.trace = {.context = {.trace = {1, 2}, .span = 3, .sampled = true, .state = "a=b"},
                   .recorded = true,
                   .parent = 4,
                   .remote_parent = true,
                   .wall = 1'000'000};
  request.requested_model = "cats";
  return request;
}

TEST(RequestSpansTest, StagesAreChildrenFromWhenTheyBegan) {
  const auto spans = SpansOf(Request(Protocol::kGrpc, absl::StatusCode::kOk));
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].kind, Span::Kind::kServer);
  EXPECT_EQ(spans[0].parent, 4u);
  EXPECT_EQ(spans[0].start, 1'001'000);
  EXPECT_EQ(spans[0].end, 1'001'060);
  EXPECT_EQ(spans[2].name, "queue");
  EXPECT_EQ(spans[2].parent, 3u);
  EXPECT_EQ(spans[2].state, "a=b");
  EXPECT_EQ(spans[2].start, 1'001'010);
  EXPECT_EQ(spans[2].end, 1'001'050);
  EXPECT_NE(spans[1].id, spans[2].id);
}

TEST(RequestSpansTest, WhatAGpuDidIsToldStepByStep) {
  AnsweredRequest request = Request(Protocol::kGrpc, absl::StatusCode::kOk);
  EXPECT_FALSE(AttributesOf(SpansOf(request)[0]).contains("fovea.kernels_ns"));
  request.device_times = DeviceTimes{.h2d = 11, .kernels = 12, .d2h = 13};
  const auto attributes = AttributesOf(SpansOf(request)[0]);
  EXPECT_EQ(std::get<int64_t>(attributes.at("fovea.h2d_ns")), 11);
  EXPECT_EQ(std::get<int64_t>(attributes.at("fovea.kernels_ns")), 12);
  EXPECT_EQ(std::get<int64_t>(attributes.at("fovea.d2h_ns")), 13);
}

TEST(RequestSpansTest, APathIsWhatTheCallerAskedFor) {
  AnsweredRequest request = Request(Protocol::kHttp, absl::StatusCode::kOk);
  request.requested_version = "7";
  request.route = "v2/models/{model}/versions/{version}/infer";
  const Span span = SpansOf(request)[0];
  EXPECT_EQ(span.name, "POST /v2/models/{model}/versions/{version}/infer");
  EXPECT_EQ(Text(span, "url.path"), "/v2/models/cats/versions/7/infer");
  request.route = "v2/models/{model}/infer";
  EXPECT_EQ(Text(SpansOf(request)[0], "url.path"), "/v2/models/cats/infer");
}

// OpenTelemetry's conventions for servers, of HTTP and of gRPC.
TEST(RequestSpansTest, AnErrorIsTheServersFault) {
  struct Row {
    absl::StatusCode code;
    std::string_view reason;
    bool grpc, http;
    int64_t status;
  };
  const Row rows[] = {{absl::StatusCode::kOk, "", false, false, 200},
                      {absl::StatusCode::kInvalidArgument, "image.truncated", false, false, 400},
                      {absl::StatusCode::kNotFound, "model.not_found", false, false, 404},
                      {absl::StatusCode::kResourceExhausted, "quota.rate", false, false, 429},
                      {absl::StatusCode::kUnavailable, "queue.full", true, true, 503},
                      {absl::StatusCode::kDeadlineExceeded, "queue.expired", true, true, 504},
                      {absl::StatusCode::kInternal, "executor.failed", true, true, 500}};
  for (const Row& row : rows) {
    const Span grpc = SpansOf(Request(Protocol::kGrpc, row.code, row.reason))[0];
    const Span http = SpansOf(Request(Protocol::kHttp, row.code, row.reason))[0];
    EXPECT_EQ(grpc.failed, row.grpc) << row.reason;
    EXPECT_EQ(http.failed, row.http) << row.reason;
    EXPECT_EQ(std::get<int64_t>(AttributesOf(http).at("http.response.status_code")), row.status);
    EXPECT_EQ(std::get<int64_t>(AttributesOf(grpc).at("rpc.grpc.status_code")),
              static_cast<int64_t>(row.code));
    if (!row.reason.empty()) {
      EXPECT_EQ(Text(grpc, "error.type"), row.reason);
    }
  }
}

TEST(RequestSpansTest, RequestsOfAStreamAreAPartOfItsCall) {
  AnsweredRequest request = Request(Protocol::kGrpc, absl::StatusCode::kOk);
  request.method = "StreamImages";
  request.trace.remote_parent = false;
  const Span span = SpansOf(request)[0];
  EXPECT_EQ(span.kind, Span::Kind::kInternal);
  EXPECT_EQ(span.name, "fovea.v1.VisionService/StreamImages request");
  const Span stream = SpanOf(EndedStream{.method = "StreamImages",
                                         .trace = request.trace,
                                         .started = 10,
                                         .ended = 20,
                                         .code = absl::StatusCode::kCancelled,
                                         .reason = "request.cancelled",
                                         .requests = 5});
  EXPECT_EQ(stream.start, 1'000'010);
  EXPECT_FALSE(stream.failed) << "its caller ended it";
}

TEST(RequestSpansTest, WhatACallerNamesIsCut) {
  AnsweredRequest request = Request(Protocol::kHttp, absl::StatusCode::kNotFound);
  const std::string endless(100'000, 'x');
  request.id = request.requested_model = request.requested_version = endless;
  request.route = "v2/models/{model}/infer";
  const Span span = SpansOf(request)[0];
  for (const auto& [name, value] : span.attributes) {
    const auto* text = std::get_if<std::string>(&value);
    if (text != nullptr) {
      EXPECT_LT(text->size(), 300u) << name;
    }
  }
}

}  // namespace
}  // namespace fovea
