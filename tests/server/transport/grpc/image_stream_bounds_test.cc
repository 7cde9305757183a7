// StreamImages: how much is taken at a time, deadlines, cancellation, the server's end.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/testing/watched_thread.h"
#include "tests/server/transport/grpc/image_stream_testing.h"

namespace fovea {
namespace {

using v1::StreamImagesRequest;
using v1::StreamImagesResponse;

using ImageStreamBounds = ImageStreamTest;

TEST_F(ImageStreamBounds, AnAnswerBeforeItsTurnKeepsItsRequestsPlace) {
  inference_.Hold();
  constexpr int kWindow = limits::kMaxStreamRequestsInFlight;
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  for (int i = 0; i < kWindow + 1; ++i) ASSERT_TRUE(stream->Write(StreamedClassify()));
  std::vector<FakeInference::Held> held = TakeAll(kWindow);
  for (int i = 1; i < kWindow; ++i) held[i].Answer();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(inference_.held(), 0u) << "taken although all places are";
  held[0].Answer();
  inference_.Take().Answer();
  const std::vector<uint64_t> numbers = ReadNumbers(*stream, kWindow + 1);
  for (int i = 0; i <= kWindow; ++i) EXPECT_EQ(numbers[i], static_cast<uint64_t>(i));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ImageStreamBounds, AsTheyComeEveryAnswerThatLeavesMakesRoom) {
  inference_.Hold();
  constexpr int kWindow = limits::kMaxStreamRequestsInFlight;
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  for (int i = 0; i < kWindow + 2; ++i) ASSERT_TRUE(stream->Write(AsTheyCome(StreamedClassify())));
  std::vector<FakeInference::Held> held = TakeAll(kWindow);
  for (const int i : {kWindow - 1, 7}) {
    held[i].Answer();
    EXPECT_EQ(Read(*stream).number(), static_cast<uint64_t>(i));
    inference_.Take().Answer();
    EXPECT_GE(Read(*stream).number(), static_cast<uint64_t>(kWindow));
  }
  for (int i = 0; i < kWindow - 1; ++i) {
    if (i != 7) held[i].Answer();
  }
  EXPECT_EQ(ReadNumbers(*stream, kWindow - 2).size(), kWindow - 2u);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// Docs/faults.md, row 65.
TEST_F(ImageStreamBounds, WhoDoesNotReadIsNotReadEither) {
  constexpr int64_t kBudget = 8 << 20, kShare = kBudget / limits::kStreamMemoryShare;
  constexpr int kRequests = 1000, kBytes = 40'000;
  Start({.port = 0}, {.request_bytes = kBudget});
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // or the window of answers grows
  const auto channel = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->port()),
                                                 grpc::InsecureChannelCredentials(), arguments);
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = v1::VisionService::NewStub(channel)->StreamImages(&context);
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) EXPECT_TRUE(stream->Write(StreamedSegment(kBytes)));
    stream->WritesDone();
  });
  EXPECT_TRUE(Eventually([&] {
    const int before = observer_.arrived();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return before > 0 && observer_.arrived() == before;
  }));
  EXPECT_LT(observer_.arrived(), kRequests);
  // The request that passed the share was the last; each answer is as long as its request, and a
  // few bytes.
  constexpr int64_t kAnswer = kBytes + limits::kRequestRecordBytes + 1000;
  EXPECT_LE(server_->api->memory().held(), (kShare / kBytes + 1) * kAnswer);
  // Others find room.
  v1::ClassifyResponse other;
  grpc::ClientContext others_context;
  EXPECT_TRUE(vision_->Classify(&others_context, StreamedClassify().classify(), &other).ok());
  // And who reads at last has an answer to everything.
  for (int i = 0; i < kRequests; ++i) {
    const StreamImagesResponse response = Read(*stream);
    ASSERT_EQ(response.number(), static_cast<uint64_t>(i));
    ASSERT_EQ(response.segment().results(0).class_map_png().size(), size_t{kBytes});
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return server_->api->memory().held() == 0; }));
}

// Docs/faults.md, row 65.
TEST_F(ImageStreamBounds, WhatRequestsHoldWhileTheyRunCounts) {
  constexpr int64_t kBudget = 8 << 20, kShare = kBudget / limits::kStreamMemoryShare;
  constexpr int kRequests = 10, kTaken = 4;
  constexpr int64_t kEach = kShare / kTaken;  // their messages are nothing beside it
  Start({.port = 0}, {.request_bytes = kBudget});
  inference_.Hold();
  inference_.TakeMemory(kEach);
  for (const bool as_they_come : {false, true}) {
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
    for (int i = 0; i < kRequests; ++i) {
      ASSERT_TRUE(
          stream->Write(as_they_come ? AsTheyCome(StreamedClassify()) : StreamedClassify()));
    }
    for (int left = kRequests; left > 0; --left) {
      const auto taken = static_cast<size_t>(std::min(left, kTaken));
      EXPECT_TRUE(Eventually([&] { return inference_.held() == taken; }));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(inference_.held(), taken) << "taken although the requests hold the share";
      EXPECT_LT(server_->api->memory().held(), 2 * kShare);
      inference_.Take().Answer();
      EXPECT_EQ(Read(*stream).number(), static_cast<uint64_t>(kRequests - left));
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_TRUE(Eventually([&] { return server_->api->memory().held() == 0; }));
  }
}

// A request that alone passes the share is run, and the next one after it.
TEST_F(ImageStreamBounds, ALargeRequestRunsAlone) {
  constexpr int64_t kBudget = 8 << 20;
  Start({.port = 0}, {.request_bytes = kBudget});
  inference_.Hold();
  inference_.TakeMemory(kBudget / 2 + 1);  // two of them would not fit
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream->Write(StreamedClassify()));
  for (uint64_t i = 0; i < 3; ++i) {
    inference_.Take().Answer();
    const StreamImagesResponse response = Read(*stream);
    EXPECT_EQ(response.number(), i);
    EXPECT_TRUE(response.has_classify()) << response.error().reason();
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ImageStreamBounds, ARequestsTimeoutEndsThatRequestAlone) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  StreamImagesRequest urgent = StreamedClassify("urgent");
  urgent.set_timeout_us(1000);
  ASSERT_TRUE(stream->Write(urgent));
  ASSERT_TRUE(stream->Write(StreamedClassify("patient")));
  std::vector<FakeInference::Held> held = TakeAll(2);
  EXPECT_EQ(held[0].request->deadline, held[0].request->stages.start() + kMillisecond);
  EXPECT_EQ(held[1].request->deadline, kNever);
  while (SteadyClock().Now() < held[0].request->deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (FakeInference::Held& one : held) one.Answer();
  const StreamImagesResponse late = Read(*stream);
  EXPECT_EQ(late.id(), "urgent");
  EXPECT_EQ(late.error().code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_EQ(late.error().reason(), "request.deadline_passed");
  EXPECT_EQ(Read(*stream).classify().id(), "patient");
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ImageStreamBounds, TheCallsDeadlineEndsAllItsRequests) {
  inference_.Hold();
  grpc::ClientContext context;
  // To connect within.
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(3));
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(stream->Write(StreamedClassify()));
  std::vector<FakeInference::Held> held = TakeAll(3);
  EXPECT_TRUE(Eventually([&] {
    return std::all_of(held.begin(), held.end(),
                       [](const auto& one) { return one.request->cancellation->Cancelled(); });
  }));
  // (The caller's deadline comes first, by the time that the message was on its way.)
  while (SteadyClock().Now() < held[2].request->deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (FakeInference::Held& one : held) one.Fail(Cancelled("queue.cancelled", "cancelled"));
  EXPECT_EQ(stream->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([&] { return observer_.requests().size() == 3; }));
  for (const AnsweredRequest& request : observer_.requests()) {
    EXPECT_EQ(request.code, absl::StatusCode::kDeadlineExceeded);
  }
}

TEST_F(ImageStreamBounds, ACancelledStreamCancelsAllItsRequests) {
  for (const bool as_they_come : {false, true}) {
    inference_.Hold();
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
    for (int i = 0; i < 3; ++i) {
      stream->Write(as_they_come ? AsTheyCome(StreamedClassify()) : StreamedClassify());
    }
    std::vector<FakeInference::Held> held = TakeAll(3);
    context.TryCancel();
    EXPECT_TRUE(Eventually([&] {
      return std::all_of(held.begin(), held.end(),
                         [](const auto& one) { return one.request->cancellation->Cancelled(); });
    }));
    for (const int i : {1, 2, 0}) held[i].Answer();
    EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  }
}

// Docs/faults.md, row 35.
TEST_F(ImageStreamBounds, CancellationAtAnyMomentEndsTheStreamOnce) {
  inference_.Hold();
  for (int round = 0; round < 100; ++round) {
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
    for (int i = 0; i < 4; ++i) stream->Write(AsTheyCome(StreamedClassify()));
    std::vector<FakeInference::Held> held = TakeAll(4);
    std::thread cancel([&context] { context.TryCancel(); });
    for (int i : {2, 0, 3, 1}) held[i].Answer();
    cancel.join();
    StreamImagesResponse response;
    while (stream->Read(&response)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  }
}

// Docs/faults.md, row 44.
TEST_F(ImageStreamBounds, ADrainingServerAnswersWhatItHasTakenAndEndsTheStream) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  stream->Write(StreamedClassify("taken"));
  FakeInference::Held held = inference_.Take();
  const WatchedThread reader([&] {
    StreamImagesResponse response;
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.classify().id(), "taken");
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_EQ(stream->Finish().error_code(), grpc::UNAVAILABLE);
    EXPECT_EQ(ReasonTold(context), "server.draining");
  });
  EXPECT_TRUE(reader.WaitsBeforeItEnds());
  std::thread shutdown([&] { EXPECT_EQ(server_->Shutdown(30 * kSecond), 0); });
  EXPECT_TRUE(Eventually([&] {
    grpc::health::v1::HealthCheckResponse health;
    grpc::ClientContext check;
    return health_->Check(&check, {}, &health).ok() &&
           health.status() == grpc::health::v1::HealthCheckResponse::NOT_SERVING;
  }));
  held.Answer();
  shutdown.join();
}

TEST_F(ImageStreamBounds, ADrainsTimeoutIsToldToEachRequest) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = vision_->StreamImages(&context);
  ASSERT_TRUE(stream->Write(StreamedClassify("late")));
  FakeInference::Held held = inference_.Take();
  held.request->cancellation->OnCancel(
      [&held] { held.Fail(Cancelled("queue.cancelled", "cancelled")); });
  const WatchedThread reader([&] {
    StreamImagesResponse response;
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.id(), "late");
    EXPECT_EQ(response.error().code(), grpc::UNAVAILABLE);
    EXPECT_EQ(response.error().reason(), "server.drain_timeout");
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_EQ(stream->Finish().error_code(), grpc::UNAVAILABLE);
  });
  EXPECT_TRUE(reader.WaitsBeforeItEnds());
  EXPECT_EQ(server_->Shutdown(50 * kMillisecond), 1);
}

}  // namespace
}  // namespace fovea
