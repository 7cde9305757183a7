#include "server/transport/grpc/vision_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <limits>

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

TEST(ReadDetectRequest, ClassesCountInTheRequestsMemory) {
  v1::DetectRequest message;
  message.add_images("x");
  for (int i = 0; i < 1000; ++i) message.add_classes("7");
  MemoryBudget budget(64 << 10, SteadyClock());
  RequestMemory memory(budget);
  InferenceRequest request;
  request.memory = &memory;
  const auto read = [&] {
    return ReadDetectRequest(TestMessage(message.SerializeAsString()).bytes(), AnyModel, &request);
  };
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(memory.bytes(), 1000 * (static_cast<int64_t>(sizeof(std::string)) + 1));
  memory.Release();
  for (int i = 0; i < 1000; ++i) message.add_classes("7");
  EXPECT_EQ(ReasonOf(read()), "request.memory");
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
  response.attention = "knn:k=100";
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
  response.receipt.batch_threads = 6;
  response.receipt.batch_peak_bytes = 99;
  response.receipt.device_times = DeviceTimes{.h2d = 11, .kernels = 12, .d2h = 13};
  std::string bytes;
  for (const auto& chunk : (*WriteClassifyResponse(response, FakeClock(28))).TakeChunks()) {
    bytes += chunk;
  }
  v1::ClassifyResponse message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  EXPECT_EQ(message.model_name(), "vit");
  EXPECT_EQ(message.model_version(), "2");
  EXPECT_EQ(message.id(), "id");
  EXPECT_EQ(message.attention(), "knn:k=100");
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
  EXPECT_EQ(message.receipt().batch_threads(), 6);
  EXPECT_EQ(message.receipt().batch_peak_bytes(), 99);
  EXPECT_EQ(message.receipt().h2d_ns(), 11);
  EXPECT_EQ(message.receipt().kernels_ns(), 12);
  EXPECT_EQ(message.receipt().d2h_ns(), 13);
}

TEST(ReadDetectRequest, ReadsWhatIsLeftOut) {
  v1::DetectRequest message;
  message.set_model_name("detector");
  message.add_images("first");
  message.set_score_threshold(0.5f);
  message.set_max_detections(7);
  message.set_priority(2);
  message.add_classes("cat");
  message.add_classes("3");
  InferenceRequest request;
  const auto read = [&] {
    return ReadDetectRequest(TestMessage(message.SerializeAsString()).bytes(), AnyModel, &request);
  };
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(request.model_name, "detector");
  EXPECT_EQ(request.priority, 2u);
  EXPECT_EQ(Text(std::get<ImageFiles>(request.input).files.at(0)), "first");
  const auto& options = std::get<DetectOptions>(request.options);
  EXPECT_EQ(options.score_threshold, 0.5f);
  EXPECT_EQ(options.max_detections, 7);
  EXPECT_THAT(options.classes, ElementsAre("cat", "3"));
  EXPECT_EQ(options.masks, MaskFormat::kNone);
  for (const auto& [format, masks] :
       {std::pair(v1::DetectRequest::RUN_LENGTHS, MaskFormat::kRunLengths),
        {v1::DetectRequest::PNG, MaskFormat::kPng}}) {
    message.set_mask_format(format);
    ASSERT_TRUE(read().ok());
    EXPECT_EQ(std::get<DetectOptions>(request.options).masks, masks);
  }
  // docs/faults.md, row 55.
  message.set_mask_format(static_cast<v1::DetectRequest::MaskFormat>(7));
  EXPECT_EQ(ReasonOf(read()), "request.mask_format");
  message.clear_mask_format();
  for (const float threshold : {-0.1f, 1.1f, std::numeric_limits<float>::quiet_NaN()}) {
    message.set_score_threshold(threshold);
    EXPECT_EQ(ReasonOf(read()), "request.score_threshold");
  }
  message.set_score_threshold(0);
  message.set_max_detections(-1);
  EXPECT_EQ(ReasonOf(read()), "request.max_detections");
}

TEST(WriteDetectResponse, WritesDetectionsAndTheReceipt) {
  InferenceResponse response;
  response.model_name = "detector";
  response.attention = "key_only";
  Detection cat{.box = {1, 2, 3, 4}, .score = 0.5f, .class_index = 7, .label = "cat"};
  cat.mask = InstanceMask{.run_lengths = "23", .png = "png", .left = 4, .top = 5, .pixels = 6};
  response.results = DetectResults{{{cat}, {480, 640}}, {{}, {1, 2}}};
  response.receipt.stages = StageTimes(0);
  response.receipt.padding = 0.25;
  std::string bytes;
  for (const auto& chunk : (*WriteDetectResponse(response, FakeClock(28))).TakeChunks()) {
    bytes += chunk;
  }
  v1::DetectResponse message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  EXPECT_EQ(message.model_name(), "detector");
  EXPECT_EQ(message.attention(), "key_only");
  ASSERT_EQ(message.results_size(), 2);
  EXPECT_EQ(message.results(0).image_height(), 480);
  EXPECT_EQ(message.results(0).image_width(), 640);
  ASSERT_EQ(message.results(0).detections_size(), 1);
  const v1::Detection& found = message.results(0).detections(0);
  EXPECT_EQ(found.box().left(), 1);
  EXPECT_EQ(found.box().top(), 2);
  EXPECT_EQ(found.box().right(), 3);
  EXPECT_EQ(found.box().bottom(), 4);
  EXPECT_EQ(found.score(), 0.5f);
  EXPECT_EQ(found.class_index(), 7);
  EXPECT_EQ(found.label(), "cat");
  EXPECT_EQ(found.mask().run_lengths(), "23");
  EXPECT_EQ(found.mask().png(), "png");
  EXPECT_EQ(found.mask().left(), 4);
  EXPECT_EQ(found.mask().top(), 5);
  EXPECT_EQ(found.mask().pixels(), 6);
  EXPECT_EQ(message.results(1).detections_size(), 0);
  EXPECT_EQ(message.receipt().encode_ns(), 28);
  EXPECT_EQ(message.receipt().padding(), 0.25);
}

TEST(ReadSegmentRequest, ReadsTheFormat) {
  v1::SegmentRequest message;
  message.add_images("first");
  InferenceRequest request;
  const auto read = [&] {
    return ReadSegmentRequest(TestMessage(message.SerializeAsString()).bytes(), AnyModel, &request);
  };
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(std::get<SegmentOptions>(request.options).format, MapFormat::kPng);
  EXPECT_FALSE(std::get<SegmentOptions>(request.options).confidence);
  message.set_map_format(v1::SegmentRequest::RUN_LENGTHS);
  message.set_confidence(true);
  ASSERT_TRUE(read().ok());
  EXPECT_EQ(std::get<SegmentOptions>(request.options).format, MapFormat::kRunLengths);
  EXPECT_TRUE(std::get<SegmentOptions>(request.options).confidence);
  // docs/faults.md, row 55.
  message.set_map_format(static_cast<v1::SegmentRequest::MapFormat>(7));
  EXPECT_EQ(ReasonOf(read()), "request.map_format");
}

TEST(WriteSegmentResponse, WritesMapsAreasAndTheReceipt) {
  InferenceResponse response;
  ImageSegmentation map{.image = {480, 640}, .class_map_png = "png", .confidence_png = "sure"};
  map.classes = {{7, "sky", 300, "04"}, {1, "", 5, ""}};
  response.results = SegmentResults{map};
  response.receipt.stages = StageTimes(0);
  std::string bytes;
  for (const auto& chunk : (*WriteSegmentResponse(response, FakeClock(28))).TakeChunks()) {
    bytes += chunk;
  }
  v1::SegmentResponse message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  ASSERT_EQ(message.results_size(), 1);
  const v1::Segmentation& result = message.results(0);
  EXPECT_EQ(result.image_height(), 480);
  EXPECT_EQ(result.image_width(), 640);
  EXPECT_EQ(result.class_map_png(), "png");
  EXPECT_EQ(result.confidence_png(), "sure");
  ASSERT_EQ(result.classes_size(), 2);
  EXPECT_EQ(result.classes(0).class_index(), 7);
  EXPECT_EQ(result.classes(0).label(), "sky");
  EXPECT_EQ(result.classes(0).pixels(), 300);
  EXPECT_EQ(result.classes(0).run_lengths(), "04");
  EXPECT_EQ(message.receipt().encode_ns(), 28);
}

TEST(WriteResponses, Row66AnswersLongerThanAMessageAreRefusedNotEmptied) {
  const std::string long_text(1000, 'x');
  ImageDetections found;
  found.detections = {{.mask = InstanceMask{.png = long_text}}};
  const Results all[] = {ClassifyResults{{{.label = long_text}}}, DetectResults{found},
                         SegmentResults{{.class_map_png = long_text}}};
  const WriteMessage writers[] = {WriteClassifyResponse, WriteDetectResponse, WriteSegmentResponse};
  for (size_t i = 0; i < std::size(all); ++i) {
    const auto write = [&](size_t max_bytes) {
      InferenceResponse response{.results = all[i]};
      response.receipt.stages = StageTimes(0);
      return writers[i](response, FakeClock(28), max_bytes);
    };
    const absl::StatusOr<EncodedMessage> refused = write(1000);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << i;
    EXPECT_EQ(ReasonOf(refused.status()), "request.answer_too_large");
    const absl::StatusOr<EncodedMessage> written = write(1100);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_GT(written->size(), 1000u);
  }
}

}  // namespace
}  // namespace fovea
