// StreamImages: the order of the answers, tasks, errors. What it shares with ModelStreamInfer is
// tested in stream_rpc_test, too.
#include <gmock/gmock.h>

#include "tests/server/transport/grpc/image_stream_testing.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using v1::StreamImagesRequest;
using v1::StreamImagesResponse;

using ImageStreamRpc = ImageStreamTest;

TEST_F(ImageStreamRpc, AnswersComeInTheOrderOfTheRequests) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(stream->Write(StreamedClassify(std::to_string(i))));
  std::vector<FakeInference::Held> held = TakeAll(10);
  for (int i = 9; i >= 0; --i) held[i].Answer();
  for (int i = 0; i < 10; ++i) {
    const StreamImagesResponse response = Read(*stream);
    EXPECT_EQ(response.number(), static_cast<uint64_t>(i));
    EXPECT_EQ(response.id(), std::to_string(i));
    EXPECT_EQ(response.classify().id(), std::to_string(i));
    EXPECT_EQ(response.classify().results(0).classes(0).label(), "seven");
    EXPECT_EQ(response.classify().receipt().batch_size(), 1);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_EQ(observer_.requests().size(), 10u);
  EXPECT_EQ(observer_.requests()[0].method, "StreamImages");
  EXPECT_EQ(observer_.requests()[0].protocol, Protocol::kGrpc);
}

TEST_F(ImageStreamRpc, AnswersLeaveAsTheyComeWhereTheFirstMessageSaysSo) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  ASSERT_TRUE(stream->Write(AsTheyCome(StreamedClassify("0"))));
  for (int i = 1; i < 5; ++i) ASSERT_TRUE(stream->Write(StreamedClassify(std::to_string(i))));
  std::vector<FakeInference::Held> held = TakeAll(5);
  for (const int i : {3, 1, 4, 0, 2}) {
    held[i].Answer();
    const StreamImagesResponse response = Read(*stream);
    EXPECT_EQ(response.number(), static_cast<uint64_t>(i));
    EXPECT_EQ(response.id(), std::to_string(i));
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ImageStreamRpc, LaterMessagesDoNotChangeTheOrder) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  ASSERT_TRUE(stream->Write(StreamedClassify()));
  ASSERT_TRUE(stream->Write(AsTheyCome(StreamedClassify())));
  std::vector<FakeInference::Held> held = TakeAll(2);
  held[1].Answer();
  held[0].Answer();
  EXPECT_THAT(ReadNumbers(*stream, 2), ElementsAre(0, 1));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ImageStreamRpc, TheFirstMessageThatTellsTheOrderDecides) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  StreamImagesRequest unknown = StreamedClassify();
  unknown.set_order(static_cast<StreamImagesRequest::Order>(9));
  ASSERT_TRUE(stream->Write(unknown));
  EXPECT_EQ(Read(*stream).error().reason(), "request.order");
  ASSERT_TRUE(stream->Write(AsTheyCome(StreamedClassify())));
  ASSERT_TRUE(stream->Write(StreamedClassify()));
  std::vector<FakeInference::Held> held = TakeAll(2);
  held[1].Answer();
  EXPECT_EQ(Read(*stream).number(), 2u);
  held[0].Answer();
  EXPECT_EQ(Read(*stream).number(), 1u);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ImageStreamRpc, EachRequestHasATaskAndOptionsOfItsOwn) {
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  StreamImagesRequest detect;
  detect.mutable_detect()->set_model_name("vit");
  detect.mutable_detect()->add_images("a picture");
  StreamImagesRequest two_pictures = StreamedSegment(10);
  two_pictures.mutable_segment()->add_images("second");
  for (const StreamImagesRequest& request : {StreamedClassify(), detect, two_pictures}) {
    ASSERT_TRUE(stream->Write(request));
  }
  EXPECT_EQ(Read(*stream).classify().results_size(), 1);
  EXPECT_EQ(Read(*stream).detect().results(0).detections(0).class_index(), 7);
  const StreamImagesResponse segmented = Read(*stream);
  ASSERT_EQ(segmented.segment().results_size(), 2);
  EXPECT_EQ(segmented.segment().results(1).class_map_png(), "second");
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ImageStreamRpc, AnErrorAnswersItsOwnRequestAndTheStreamGoesOn) {
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  StreamImagesRequest unknown = StreamedClassify("unknown");
  unknown.mutable_classify()->set_model_name("nobody");
  StreamImagesRequest no_image = StreamedClassify("no image");
  no_image.mutable_classify()->clear_images();
  for (const StreamImagesRequest& request :
       {StreamedClassify("first"), unknown, StreamImagesRequest(), no_image,
        StreamedClassify("last")}) {
    ASSERT_TRUE(stream->Write(request));
  }
  EXPECT_EQ(Read(*stream).classify().id(), "first");
  StreamImagesResponse response = Read(*stream);
  EXPECT_EQ(response.number(), 1u);
  EXPECT_EQ(response.id(), "unknown");
  EXPECT_EQ(response.error().code(), grpc::NOT_FOUND);
  EXPECT_EQ(response.error().reason(), "model.not_found");
  EXPECT_EQ(response.error().message(), "no such model is loaded");
  response = Read(*stream);
  EXPECT_EQ(response.number(), 2u);
  EXPECT_EQ(response.error().code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(response.error().reason(), "request.no_task");
  response = Read(*stream);
  EXPECT_EQ(response.id(), "no image");
  EXPECT_EQ(response.error().reason(), "request.no_image");
  EXPECT_EQ(Read(*stream).classify().id(), "last");
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_EQ(observer_.requests().size(), 5u);
  EXPECT_EQ(observer_.requests()[1].code, absl::StatusCode::kNotFound);
}

// Docs/faults.md, row 66.
TEST_F(ImageStreamRpc, AnAnswerThatNoMessageHoldsIsItsOwnRequestsError) {
  Start({.port = 0, .max_answer_bytes = 1000});
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  for (const size_t bytes : {2000, 100}) ASSERT_TRUE(stream->Write(StreamedSegment(bytes)));
  const StreamImagesResponse response = Read(*stream);
  EXPECT_EQ(response.number(), 0u);
  EXPECT_EQ(response.error().code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(response.error().reason(), "request.answer_too_large");
  EXPECT_EQ(Read(*stream).segment().results(0).class_map_png().size(), 100u);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// Docs/faults.md, row 1.
TEST_F(ImageStreamRpc, BytesThatAreNoMessageAreOneRequestsError) {
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  void* tag;
  bool ok;
  grpc::GenericStub stub(channel_);
  auto stream = stub.PrepareCall(&context, "/fovea.v1.VisionService/StreamImages", &queue);
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  for (const std::string& bytes :
       {std::string("\x0A\x7Fx"), StreamedClassify("good").SerializeAsString()}) {
    const grpc::Slice slice(bytes);
    stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
    grpc::ByteBuffer answer;
    stream->Read(&answer, nullptr);
    ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
    grpc::Slice whole;
    ASSERT_TRUE(answer.DumpToSingleSlice(&whole).ok());
    StreamImagesResponse response;
    ASSERT_TRUE(response.ParseFromArray(whole.begin(), static_cast<int>(whole.size())));
    if (bytes.size() == 3) {
      EXPECT_EQ(response.error().reason(), "request.malformed");
      EXPECT_EQ(response.error().code(), grpc::INVALID_ARGUMENT);
    } else {
      EXPECT_EQ(response.number(), 1u);
      EXPECT_EQ(response.classify().id(), "good");
    }
  }
  stream->WritesDone(nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  EXPECT_TRUE(status.ok());
}

}  // namespace
}  // namespace fovea
