// ModelStreamInfer.
#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/testing/watched_thread.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

using inference::ModelInferRequest;
using inference::ModelStreamInferResponse;

class StreamRpc : public GrpcServerTest {
 protected:
  using Stream = grpc::ClientReaderWriter<ModelInferRequest, ModelStreamInferResponse>;
};

TEST_F(StreamRpc, AnswersComeInTheOrderOfTheRequests) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  std::vector<FakeInference::Held> held;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(stream->Write(SmallRequest(std::to_string(i))));
  for (int i = 0; i < 10; ++i) held.push_back(inference_.Take());
  for (int i = 9; i >= 0; --i) held[i].Answer();
  for (int i = 0; i < 10; ++i) {
    ModelStreamInferResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.error_message(), "");
    EXPECT_EQ(response.infer_response().id(), std::to_string(i));
    EXPECT_EQ(response.infer_response().raw_output_contents(0), "12345678");
  }
  stream->WritesDone();
  ModelStreamInferResponse nothing;
  EXPECT_FALSE(stream->Read(&nothing));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(observer_.requests().size(), 10u);
  EXPECT_EQ(observer_.requests()[0].method, "ModelStreamInfer");
}

TEST_F(StreamRpc, AnErrorAnswersItsOwnRequestAndTheStreamGoesOn) {
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  ModelInferRequest bad = SmallRequest("bad");
  bad.set_raw_input_contents(0, "short");
  ModelStreamInferResponse response;
  stream->Write(SmallRequest("first"));
  stream->Write(bad);
  stream->Write(SmallRequest("last"));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "first");
  ASSERT_TRUE(stream->Read(&response));
  // Triton's clients show the text alone; others may read the parameters.
  EXPECT_THAT(response.error_message(),
              ::testing::EndsWith(" [INVALID_ARGUMENT request.input_size]"));
  EXPECT_EQ(response.infer_response().id(), "bad");
  const auto& parameters = response.infer_response().parameters();
  EXPECT_EQ(parameters.at("fovea.code").string_param(), "INVALID_ARGUMENT");
  EXPECT_EQ(parameters.at("fovea.reason").string_param(), "request.input_size");
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_message(), "");
  EXPECT_EQ(response.infer_response().id(), "last");
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamRpc, Row110AnErrorEndsTheStreamWhereItsCallerAsksForThat) {
  inference_.Hold();
  grpc::ClientContext context;
  context.AddMetadata("triton_grpc_error", "true");
  std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  ModelInferRequest bad = SmallRequest("bad");
  bad.set_raw_input_contents(0, "short");
  stream->Write(SmallRequest("first"));
  stream->Write(bad);
  stream->Write(SmallRequest("given up"));
  FakeInference::Held first = inference_.Take();
  FakeInference::Held given_up = inference_.Take();
  EXPECT_FALSE(given_up.request->cancellation->Cancelled()) << "the first answer comes before";
  first.Answer();
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "first");
  EXPECT_TRUE(Eventually([&] { return given_up.request->cancellation->Cancelled(); }));
  given_up.Fail(Cancelled("request.cancelled", "the caller cancelled the request"));
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonTold(context), "request.input_size");
}

TEST_F(StreamRpc, AnswersAreGivenAfterTheCallerHasSentAll) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  stream->Write(SmallRequest("only"));
  stream->WritesDone();
  FakeInference::Held held = inference_.Take();
  held.Answer();
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().id(), "only");
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamRpc, AnEmptyStreamEndsWell) {
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamRpc, OnlySoManyRequestsAreTakenAtATime) {
  inference_.Hold();
  constexpr int kRequests = limits::kMaxStreamRequestsInFlight + 20;
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  std::thread writer([&stream] {
    for (int i = 0; i < kRequests; ++i) stream->Write(SmallRequest(std::to_string(i)));
    stream->WritesDone();
  });
  EXPECT_TRUE(
      Eventually([this] { return inference_.held() == limits::kMaxStreamRequestsInFlight; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(inference_.held(), static_cast<size_t>(limits::kMaxStreamRequestsInFlight));
  for (int i = 0; i < kRequests; ++i) {
    inference_.Take().Answer();
    ModelStreamInferResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), std::to_string(i));
  }
  writer.join();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(StreamRpc, ACancelledStreamCancelsAllItsRequests) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  std::vector<FakeInference::Held> held;
  for (int i = 0; i < 3; ++i) stream->Write(SmallRequest());
  for (int i = 0; i < 3; ++i) held.push_back(inference_.Take());
  // One answers at once from within the cancellation, as a queue's task does.
  std::atomic<bool> answered = false;
  held[1].request->cancellation->OnCancel([&] {
    held[1].Fail(Cancelled("queue.cancelled", "cancelled"));
    answered = true;
  });
  context.TryCancel();
  EXPECT_TRUE(Eventually([&] {
    return answered && held[0].request->cancellation->Cancelled() &&
           held[2].request->cancellation->Cancelled();
  }));
  held[2].Answer();
  held[0].Answer();
  EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
}

TEST_F(StreamRpc, CancellationAtAnyMomentEndsTheStreamOnce) {
  inference_.Hold();
  for (int round = 0; round < 100; ++round) {
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
    for (int i = 0; i < 4; ++i) stream->Write(SmallRequest());
    std::vector<FakeInference::Held> held;
    for (int i = 0; i < 4; ++i) held.push_back(inference_.Take());
    std::thread cancel([&context] { context.TryCancel(); });
    for (int i : {2, 0, 3, 1}) held[i].Answer();
    cancel.join();
    ModelStreamInferResponse response;
    while (stream->Read(&response)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::CANCELLED);
  }
}

TEST_F(StreamRpc, ADrainingServerAnswersWhatItHasTakenAndEndsTheStream) {
  inference_.Hold();
  grpc::ClientContext context;
  std::unique_ptr<Stream> stream = stub_->ModelStreamInfer(&context);
  stream->Write(SmallRequest("taken"));
  FakeInference::Held held = inference_.Take();
  // (gRPC's client lets go of what it was not asked for by the time that the stream ends.)
  const WatchedThread reader([&] {
    ModelStreamInferResponse response;
    EXPECT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.infer_response().id(), "taken");
    EXPECT_FALSE(stream->Read(&response));
    EXPECT_EQ(stream->Finish().error_code(), grpc::UNAVAILABLE);
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

}  // namespace
}  // namespace fovea
