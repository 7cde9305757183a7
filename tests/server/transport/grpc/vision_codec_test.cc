#include "server/transport/grpc/vision_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/status.h"
#include "proto/fovea/v1/vision.pb.h"
#include "server/core/testing/fake_clock.h"
#include "tests/server/transport/grpc/codec_testing.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;

absl::Status ReadClassify(const v1::ClassifyRequest& message, InferenceRequest* request) {
  return ReadClassifyRequest(TestMessage(message.SerializeAsString()).bytes(), AnyModel, request);
}

TEST(ReadClassifyRequest, ImagesStayFiles) {
  v1::ClassifyRequest message;
  message.set_model_name("vit");
  message.set_model_version("1");
  message.set_id("id");
  message.set_top_k(3);
  message.set_priority(2);
  message.add_images("first");
  message.add_images("");
  message.add_images(std::string(100'000, 'x'));
  const std::string bytes = message.SerializeAsString();
  std::mt19937 random(1);
  for (const size_t longest : {size_t{1}, size_t{1000}, bytes.size()}) {
    InferenceRequest request;
    ASSERT_TRUE(
        ReadClassifyRequest(TestMessage(bytes, &random, longest).bytes(), AnyModel, &request).ok());
    EXPECT_EQ(request.model_name, "vit");
    EXPECT_EQ(request.model_version, "1");
    EXPECT_EQ(request.id, "id");
    EXPECT_EQ(std::get<ClassifyOptions>(request.options).top_k, 3);
    EXPECT_EQ(request.priority, 2u);
    const std::vector<ScatteredBytes>& files = std::get<ImageFiles>(request.input).files;
    ASSERT_EQ(files.size(), 3u);
    EXPECT_EQ(Text(files[0]), "first");
    EXPECT_EQ(Text(files[1]), "");
    EXPECT_EQ(Text(files[2]), std::string(100'000, 'x'));
  }
}

TEST(ReadClassifyRequest, FiveClassesWhereNoNumberIsGiven) {
  v1::ClassifyRequest message;
  message.add_images("x");
  InferenceRequest request;
  ASSERT_TRUE(ReadClassify(message, &request).ok());
  EXPECT_EQ(std::get<ClassifyOptions>(request.options).top_k, 5);
}

TEST(ReadClassifyRequest, RefusesWhatMakesNoSense) {
  InferenceRequest request;
  v1::ClassifyRequest message;
  EXPECT_EQ(ReasonOf(ReadClassify(message, &request)), "request.no_image");
  message.add_images("x");
  message.set_top_k(-1);
  EXPECT_EQ(ReasonOf(ReadClassify(message, &request)), "request.top_k");
  message.set_top_k(1);
  message.set_id(std::string(limits::kMaxRequestIdBytes + 1, 'x'));
  EXPECT_EQ(ReasonOf(ReadClassify(message, &request)), "request.id");
  message.set_id("");
  for (int i = 0; i < limits::kMaxBatchSize; ++i) message.add_images("");
  EXPECT_EQ(ReadClassify(message, &request).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(ReadClassifyRequest(TestMessage("\x22\x7Fx").bytes(), AnyModel, &request)),
            "request.malformed");
}

TEST(WriteClassifyResponse, WritesClassesAndTheReceipt) {
  InferenceResponse response;
  response.model_name = "vit";
  response.model_version = "2";
  response.id = "id";
  response.attention = "self/knn:k=100";
  response.untrained = true;
  response.results =
      ClassifyResults{{{3, "cat", 0.75f, 4.5f}, {1, "dog", 0.25f, 3.5f}}, {{0, "", 1.f, 9.f}}};
  response.receipt.stages = StageTimes(0);
  response.receipt.stages.EndStage(Stage::kReceive, 1);
  response.receipt.stages.EndStage(Stage::kDecode, 3);
  response.receipt.stages.EndStage(Stage::kPreprocess, 6);
  response.receipt.stages.EndStage(Stage::kQueue, 10);
  response.receipt.stages.EndStage(Stage::kCompute, 15);
  response.receipt.stages.EndStage(Stage::kPostprocess, 21);
  response.receipt.batch_size = 2;
  response.receipt.batch_peak_bytes = 99;
  std::string bytes;
  for (const auto& chunk : WriteClassifyResponse(response, FakeClock(28)).TakeChunks()) {
    bytes += chunk;
  }
  v1::ClassifyResponse message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  EXPECT_EQ(message.model_name(), "vit");
  EXPECT_EQ(message.model_version(), "2");
  EXPECT_EQ(message.id(), "id");
  EXPECT_EQ(message.attention(), "self/knn:k=100");
  EXPECT_TRUE(message.untrained());
  ASSERT_EQ(message.results_size(), 2);
  EXPECT_EQ(message.results(0).classes(1).label(), "dog");
  EXPECT_EQ(message.results(0).classes(0).index(), 3);
  EXPECT_FLOAT_EQ(message.results(0).classes(0).confidence(), 0.75f);
  EXPECT_FLOAT_EQ(message.results(1).classes(0).logit(), 9.f);
  EXPECT_EQ(message.receipt().receive_ns(), 1);
  EXPECT_EQ(message.receipt().decode_ns(), 2);
  EXPECT_EQ(message.receipt().preprocess_ns(), 3);
  EXPECT_EQ(message.receipt().queue_ns(), 4);
  EXPECT_EQ(message.receipt().compute_ns(), 5);
  EXPECT_EQ(message.receipt().postprocess_ns(), 6);
  EXPECT_EQ(message.receipt().encode_ns(), 7);
  EXPECT_EQ(message.receipt().batch_size(), 2);
  EXPECT_EQ(message.receipt().batch_peak_bytes(), 99);
}

}  // namespace
}  // namespace fovea
