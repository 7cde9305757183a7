#include "client/cpp/image_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "client/cpp/client.h"
#include "tests/client/fake_server.h"

namespace fovea::client {
namespace {

using ::testing::ElementsAre;

class ImageStreams : public ::testing::Test {
 protected:
  std::unique_ptr<ImageStream> Open(const StreamOptions& options = {}) {
    auto stream = client_->StreamImages(options);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }
  static ClassifyRequest Classify(const std::string& image, const std::string& id = "") {
    return {.model = {"shapes"}, .images = {image}, .top_k = 2, .id = id};
  }

  FakeServer server_{{.name = "shapes"}, {.name = "finder", .task = "detection"}};
  std::unique_ptr<Client> client_ = *Client::Connect(server_.address());
};

TEST_F(ImageStreams, HaveAnExperimentsKeyForAllTheirRequests) {
  const auto stream = Open({.experiment_key = "camera 3"});
  ASSERT_TRUE(stream->Write(Classify("an image")));
  ASSERT_TRUE(stream->Write(DetectRequest{.model = {"finder"}, .images = {"a"}}));
  stream->WritesDone();
  auto answer = stream->Read();
  ASSERT_TRUE(answer && answer->response.ok());
  EXPECT_EQ(std::get<ClassifyResponse>(*answer->response).receipt.experiment_arm,
            "shapes/camera 3");
  answer = stream->Read();
  ASSERT_TRUE(answer && answer->response.ok());
  EXPECT_EQ(std::get<DetectResponse>(*answer->response).receipt.experiment_arm, "shapes/camera 3");
  EXPECT_TRUE(absl::IsInvalidArgument(client_->StreamImages({.experiment_key = "\n"}).status()));
}

TEST_F(ImageStreams, GiveEachRequestItsTasksResponse) {
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Classify("an image", "first")));
  ASSERT_TRUE(stream->Write(DetectRequest{.model = {"finder"}, .images = {"a", "b"}}));
  ASSERT_TRUE(stream->Write(
      SegmentRequest{.model = {"finder"}, .images = {"an image"}, .confidence = true}));
  stream->WritesDone();
  auto answer = stream->Read();
  ASSERT_TRUE(answer && answer->response.ok());
  EXPECT_EQ(answer->number, 0u);
  EXPECT_EQ(answer->id, "first");
  const auto& classified = std::get<ClassifyResponse>(*answer->response);
  EXPECT_EQ(classified.images[0].size(), 2u);
  EXPECT_EQ(classified.images[0][0].label, "circle");
  EXPECT_EQ(classified.receipt.compute(), absl::Milliseconds(2));
  EXPECT_GT(classified.round_trip, absl::ZeroDuration());
  answer = stream->Read();
  ASSERT_TRUE(answer && answer->response.ok());
  EXPECT_EQ(std::get<DetectResponse>(*answer->response).images.size(), 2u);
  answer = stream->Read();
  ASSERT_TRUE(answer && answer->response.ok());
  const ImageSegmentation& map = std::get<SegmentResponse>(*answer->response).images[0];
  EXPECT_EQ(map.class_map.size(), 6u);
  EXPECT_EQ(map.confidence.size(), 6u);
  EXPECT_FALSE(stream->Read());
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(stream->Finish().ok()) << "again is nothing";
}

TEST_F(ImageStreams, AnswersComeInTheOrderThatIsAskedFor) {
  for (const auto order : {StreamOptions::Order::kInOrder, StreamOptions::Order::kAsTheyCome}) {
    const auto stream = Open({.order = order});
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream->Write(Classify("an image")));
    stream->WritesDone();
    std::vector<uint64_t> numbers;
    while (const auto answer = stream->Read()) numbers.push_back(answer->number);
    if (order == StreamOptions::Order::kInOrder) {
      EXPECT_THAT(numbers, ElementsAre(0, 1, 2));
    } else {
      EXPECT_THAT(numbers, ElementsAre(2, 1, 0));
    }
    EXPECT_TRUE(stream->Finish().ok());
  }
}

TEST_F(ImageStreams, AFailedRequestHasTheServersCodeSentenceAndReason) {
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Classify("bad", "broken")));
  ASSERT_TRUE(stream->Write(Classify("an image"), absl::Nanoseconds(1)));
  ASSERT_TRUE(stream->Write(Classify("an image", "good"), absl::Seconds(10)));
  auto answer = stream->Read();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->id, "broken");
  EXPECT_TRUE(absl::IsInvalidArgument(answer->response.status()));
  EXPECT_EQ(answer->response.status().message(), "the image is no JPEG, PNG or WebP file");
  EXPECT_EQ(ReasonOf(answer->response.status()), "image.unknown_format");
  answer = stream->Read();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer->response.status())) << answer->response.status();
  answer = stream->Read();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->id, "good");
  EXPECT_TRUE(answer->response.ok());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ImageStreams, MayBeWrittenAndReadOnTwoThreads) {
  const auto stream = Open();
  constexpr uint64_t kRequests = 500;
  std::jthread writer([&] {
    for (uint64_t i = 0; i < kRequests; ++i) EXPECT_TRUE(stream->Write(Classify("an image")));
    stream->WritesDone();
  });
  uint64_t next = 0;
  while (const auto answer = stream->Read()) EXPECT_EQ(answer->number, next++);
  EXPECT_EQ(next, kRequests);
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ImageStreams, EndWithCancelledWhereTheyAreCancelled) {
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Classify("slow")));
  std::jthread canceller([&] {
    while (server_.classified().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stream->Cancel();
  });
  EXPECT_FALSE(stream->Read());
  EXPECT_TRUE(absl::IsCancelled(stream->Finish()));
}

TEST_F(ImageStreams, EndWithTheirClient) {
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Classify("slow")));
  std::jthread stopper([&] {
    while (server_.classified().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    client_->Stop();
  });
  EXPECT_FALSE(stream->Read());
  EXPECT_TRUE(absl::IsCancelled(stream->Finish()));
  EXPECT_TRUE(absl::IsCancelled(client_->StreamImages().status()));
}

TEST_F(ImageStreams, EndAtTheirDeadline) {
  const auto stream = Open({.timeout = absl::Milliseconds(100)});
  stream->Write(Classify("slow"));  // false where the deadline has come by then
  EXPECT_FALSE(stream->Read());
  EXPECT_EQ(stream->Finish(), absl::DeadlineExceededError("no answer within 100ms"));
}

TEST_F(ImageStreams, ThatNobodyFinishesAreCancelled) {
  {
    const auto stream = Open();
    ASSERT_TRUE(stream->Write(Classify("slow")));
  }
  EXPECT_TRUE(client_->Health().ok());
}

TEST_F(ImageStreams, EndWithUnavailableWhereTheServerStops) {
  const auto stream = Open();
  ASSERT_TRUE(stream->Write(Classify("an image")));
  ASSERT_TRUE(stream->Read());
  server_.Stop();
  EXPECT_FALSE(stream->Read());
  EXPECT_TRUE(absl::IsUnavailable(stream->Finish())) << stream->Finish();
}

}  // namespace
}  // namespace fovea::client
