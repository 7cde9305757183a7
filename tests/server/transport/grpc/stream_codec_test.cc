#include "server/transport/grpc/stream_codec.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/status.h"
#include "proto/fovea/v1/vision.pb.h"
#include "server/core/testing/fake_clock.h"
#include "tests/server/transport/grpc/codec_testing.h"

namespace fovea {
namespace {

using v1::StreamImagesRequest;
using v1::StreamImagesResponse;

absl::Status ReadStreamed(const std::string& message, InferenceRequest* request,
                          std::optional<AnswerOrder>* order) {
  return ReadStreamImagesRequest(TestMessage(message).bytes(), AnyModel, request, order);
}

// "OK", or the reason of the error.
std::string Outcome(const StreamImagesRequest& message) {
  InferenceRequest request;
  std::optional<AnswerOrder> order;
  const absl::Status status = ReadStreamed(message.SerializeAsString(), &request, &order);
  return status.ok() ? "OK" : ReasonOf(status);
}

StreamImagesResponse Parsed(EncodedMessage message) {
  std::string bytes;
  for (const std::string& chunk : std::move(message).TakeChunks()) bytes += chunk;
  StreamImagesResponse response;
  EXPECT_TRUE(response.ParseFromString(bytes));
  return response;
}

TEST(ReadStreamImagesRequest, ReadsEachTaskWithItsOwnOptions) {
  StreamImagesRequest message;
  message.mutable_classify()->set_model_name("vit");
  message.mutable_classify()->set_id("7");
  message.mutable_classify()->set_top_k(3);
  message.mutable_classify()->add_images("a picture");
  std::optional<AnswerOrder> order;
  {
    InferenceRequest request;
    ASSERT_TRUE(ReadStreamed(message.SerializeAsString(), &request, &order).ok());
    EXPECT_EQ(request.model_name, "vit");
    EXPECT_EQ(request.id, "7");
    EXPECT_EQ(std::get<ClassifyOptions>(request.options).top_k, 3);
    EXPECT_EQ(order, AnswerOrder::kInOrder);
    EXPECT_EQ(request.deadline, kNever);
  }
  message.mutable_detect()->set_max_detections(2);
  message.mutable_detect()->add_images("a picture");
  {
    InferenceRequest request;
    ASSERT_TRUE(ReadStreamed(message.SerializeAsString(), &request, &order).ok());
    EXPECT_EQ(std::get<DetectOptions>(request.options).max_detections, 2);
  }
  message.mutable_segment()->set_map_format(v1::SegmentRequest::RUN_LENGTHS);
  message.mutable_segment()->add_images("a picture");
  {
    InferenceRequest request;
    ASSERT_TRUE(ReadStreamed(message.SerializeAsString(), &request, &order).ok());
    EXPECT_EQ(std::get<SegmentOptions>(request.options).format, MapFormat::kRunLengths);
  }
}

TEST(ReadStreamImagesRequest, ImagesStayWhereTheyWereReceived) {
  StreamImagesRequest message;
  message.mutable_classify()->add_images("first");
  message.mutable_classify()->add_images(std::string(100'000, 'x'));
  const std::string bytes = message.SerializeAsString();
  std::mt19937 random(1);
  for (const size_t longest : {size_t{1}, size_t{1000}, bytes.size()}) {
    InferenceRequest request;
    std::optional<AnswerOrder> order;
    const TestMessage received(bytes, &random, longest);
    ASSERT_TRUE(ReadStreamImagesRequest(received.bytes(), AnyModel, &request, &order).ok());
    const std::vector<ScatteredBytes>& files = std::get<ImageFiles>(request.input).files;
    ASSERT_EQ(files.size(), 2u);
    EXPECT_EQ(Text(files[0]), "first");
    EXPECT_EQ(Text(files[1]), std::string(100'000, 'x'));
  }
}

TEST(ReadStreamImagesRequest, TheEarlierOfTheDeadlinesCounts) {
  StreamImagesRequest message;
  message.mutable_classify()->add_images("a picture");
  message.set_timeout_us(1000);
  std::optional<AnswerOrder> order;
  for (const auto& [deadline, expected] :
       {std::pair{kNever, 5 * kSecond + kMillisecond}, {5 * kSecond + 1, 5 * kSecond + 1}}) {
    InferenceRequest request;
    request.stages = StageTimes(5 * kSecond);
    request.deadline = deadline;
    ASSERT_TRUE(ReadStreamed(message.SerializeAsString(), &request, &order).ok());
    EXPECT_EQ(request.deadline, expected);
  }
  message.set_timeout_us(UINT64_MAX);
  InferenceRequest request;
  request.stages = StageTimes(0);
  ASSERT_TRUE(ReadStreamed(message.SerializeAsString(), &request, &order).ok());
  EXPECT_EQ(request.deadline, limits::kMaxTimeoutSeconds * kSecond);
}

TEST(ReadStreamImagesRequest, TheOrderIsToldEvenWhereTheRestIsRefused) {
  StreamImagesRequest message;
  message.set_order(StreamImagesRequest::AS_THEY_COME);
  InferenceRequest request;
  std::optional<AnswerOrder> order;
  EXPECT_EQ(ReasonOf(ReadStreamed(message.SerializeAsString(), &request, &order)),
            "request.no_task");
  EXPECT_EQ(order, AnswerOrder::kAsTheyCome);
  order.reset();
  EXPECT_EQ(ReasonOf(ReadStreamed("\x0A\x7Fx", &request, &order)), "request.malformed");
  EXPECT_EQ(order, std::nullopt);
}

// Docs/faults.md, rows 1 and 64.
TEST(ReadStreamImagesRequest, RefusesWhatMakesNoSense) {
  StreamImagesRequest message;
  EXPECT_EQ(Outcome(message), "request.no_task");
  message.mutable_detect();
  EXPECT_EQ(Outcome(message), "request.no_image");
  message.mutable_detect()->add_images("a picture");
  EXPECT_EQ(Outcome(message), "OK");
  message.set_order(static_cast<StreamImagesRequest::Order>(9));
  EXPECT_EQ(Outcome(message), "request.order");
  message.set_order(StreamImagesRequest::IN_ORDER);
  message.mutable_detect()->set_max_detections(-1);
  EXPECT_EQ(Outcome(message), "request.max_detections");

  StreamImagesRequest other;
  other.mutable_classify()->add_images("a picture");
  InferenceRequest request;
  std::optional<AnswerOrder> order;
  EXPECT_EQ(ReasonOf(ReadStreamed(message.SerializeAsString() + other.SerializeAsString(), &request,
                                  &order)),
            "request.two_tasks");
}

TEST(WriteStreamedAnswer, CarriesTheTasksResponseWithNumberAndId) {
  InferenceResponse response;
  response.id = "7";
  response.results = ClassifyResults{{{3, "cat", 0.75f, 4.5f}}};
  StreamImagesResponse answer =
      Parsed(WriteStreamedAnswer(*WriteStreamedResults(response, FakeClock(28)), 12, "7"));
  EXPECT_EQ(answer.number(), 12u);
  EXPECT_EQ(answer.id(), "7");
  EXPECT_EQ(answer.classify().id(), "7");
  EXPECT_EQ(answer.classify().results(0).classes(0).label(), "cat");

  response.results = DetectResults{{.detections = {{.score = 0.5f}}}};
  answer = Parsed(WriteStreamedAnswer(*WriteStreamedResults(response, FakeClock(28)), 0, ""));
  EXPECT_EQ(answer.detect().results(0).detections(0).score(), 0.5f);

  response.results = SegmentResults{{.class_map_png = std::string(100'000, 'x')}};
  answer = Parsed(WriteStreamedAnswer(*WriteStreamedResults(response, FakeClock(28)), 0, ""));
  EXPECT_EQ(answer.segment().results(0).class_map_png(), std::string(100'000, 'x'));
}

TEST(WriteStreamedResults, Row66AnAnswerLongerThanAMessageIsRefused) {
  InferenceResponse response{.results = SegmentResults{{.class_map_png = std::string(1000, 'x')}}};
  response.receipt.stages = StageTimes(0);
  const auto refused = WriteStreamedResults(response, FakeClock(28), 1000);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused.status()), "request.answer_too_large");
}

TEST(WriteStreamedError, CarriesCodeReasonAndText) {
  const StreamImagesResponse answer =
      Parsed(WriteStreamedError(3, "image.truncated", "the image is truncated", 5, "7"));
  EXPECT_EQ(answer.number(), 5u);
  EXPECT_EQ(answer.id(), "7");
  EXPECT_EQ(answer.error().code(), 3);
  EXPECT_EQ(answer.error().reason(), "image.truncated");
  EXPECT_EQ(answer.error().message(), "the image is truncated");
}

}  // namespace
}  // namespace fovea
