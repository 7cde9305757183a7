// Unary calls that carry images.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "base/status.h"
#include "server/transport/grpc/grpc_status.h"
#include "tests/server/transport/grpc/raw_http2.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using ::testing::HasSubstr;

class InferRpc : public GrpcServerTest {
 protected:
  // A ModelInfer on a thread of its own.
  struct Pending {
    grpc::ClientContext context;
    ModelInferResponse response;
    grpc::Status status;
    std::thread thread;
  };
  std::unique_ptr<Pending> StartInfer(const ModelInferRequest& request,
                                      std::chrono::milliseconds timeout = {}) {
    auto pending = std::make_unique<Pending>();
    if (timeout.count() > 0) {
      pending->context.set_deadline(std::chrono::system_clock::now() + timeout);
    }
    pending->thread = std::thread([this, request, p = pending.get()] {
      p->status = stub_->ModelInfer(&p->context, request, &p->response);
    });
    return pending;
  }
};

TEST_F(InferRpc, AnInferenceComesBackWithItsReceipt) {
  ModelInferResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub_->ModelInfer(&context, SmallRequest("id-1"), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.id(), "id-1");
  EXPECT_EQ(response.model_version(), "1");
  ASSERT_EQ(response.raw_output_contents_size(), 1);
  EXPECT_EQ(response.raw_output_contents(0), "12345678");
  EXPECT_GT(response.parameters().at("fovea.receive_ns").int64_param(), 0);
  EXPECT_GT(response.parameters().at("fovea.encode_ns").int64_param(), 0);
  EXPECT_EQ(response.parameters().at("fovea.batch_size").int64_param(), 1);
}

TEST_F(InferRpc, LargeTensorsGoBothWaysWhole) {
  ModelInferRequest request = SmallRequest();
  std::string data(50 << 20, '\0');
  for (size_t i = 0; i < data.size(); i += 4)
    *reinterpret_cast<uint32_t*>(&data[i]) = i * 2654435761u;
  request.mutable_inputs(0)->set_shape(0, data.size() / 4);
  request.set_raw_input_contents(0, data);
  ModelInferResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub_->ModelInfer(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.raw_output_contents(0) == data);
}

TEST_F(InferRpc, ClassifyAnswersWithClasses) {
  v1::ClassifyRequest request;
  request.set_model_name("vit");
  request.add_images("not really a JPEG");
  v1::ClassifyResponse response;
  grpc::ClientContext context;
  const grpc::Status status = vision_->Classify(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results_size(), 1);
  EXPECT_EQ(response.results(0).classes(0).label(), "seven");
  EXPECT_EQ(response.attention(), "dense");
  EXPECT_EQ(response.receipt().batch_size(), 1);
  EXPECT_GT(response.receipt().encode_ns(), 0);
}

// Docs/faults.md, row 66.
TEST_F(InferRpc, AnAnswerThatNoMessageHoldsIsAnError) {
  Start({.port = 0, .max_answer_bytes = 1000});
  v1::SegmentRequest request;
  request.set_model_name("vit");
  request.add_images(std::string(2000, 'x'));  // the answer is as long
  v1::SegmentResponse response;
  grpc::ClientContext contexts[4];
  EXPECT_EQ(vision_->Segment(&contexts[0], request, &response).error_code(),
            grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonTold(contexts[0]), "request.answer_too_large");
  request.set_images(0, std::string(100, 'x'));
  EXPECT_TRUE(vision_->Segment(&contexts[1], request, &response).ok());

  ModelInferRequest tensors = SmallRequest();
  ModelInferResponse echoed;
  EXPECT_TRUE(stub_->ModelInfer(&contexts[2], tensors, &echoed).ok());
  tensors.mutable_inputs(0)->set_shape(0, 500);
  tensors.set_raw_input_contents(0, std::string(2000, 'x'));
  EXPECT_EQ(stub_->ModelInfer(&contexts[3], tensors, &echoed).error_code(),
            grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonTold(contexts[3]), "request.answer_too_large");
}

TEST_F(InferRpc, AnErrorCarriesItsCodeWordsAndReason) {
  const std::vector<std::pair<absl::Status, grpc::StatusCode>> errors = {
      {InvalidArgument("image.truncated", "the image ends early"), grpc::INVALID_ARGUMENT},
      {ResourceExhausted("image.too_many_bytes", "too large"), grpc::RESOURCE_EXHAUSTED},
      {Unavailable("queue.full", "the queue is full"), grpc::UNAVAILABLE},
      {DeadlineExceeded("queue.expired", "too late"), grpc::DEADLINE_EXCEEDED},
      {Cancelled("queue.cancelled", "cancelled"), grpc::CANCELLED},
      {NotFound("model.not_found", "no such model"), grpc::NOT_FOUND},
      {FailedPrecondition("model.no_classifier", "no classes"), grpc::FAILED_PRECONDITION},
      {Unimplemented("request.shared_memory", "no"), grpc::UNIMPLEMENTED},
      {Internal("executor.failed", "the model failed"), grpc::INTERNAL},
      {absl::UnknownError("?"), grpc::INTERNAL},
      {absl::DataLossError("?"), grpc::INTERNAL}};
  for (const auto& [error, code] : errors) {
    inference_.FailWith(error);
    ModelInferResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub_->ModelInfer(&context, SmallRequest(), &response);
    EXPECT_EQ(status.error_code(), code) << error;
    EXPECT_EQ(status.error_message(), std::string(error.message()));
    EXPECT_EQ(ReasonTold(context), ReasonOf(error)) << error;
  }
}

TEST_F(InferRpc, ARefusedRequestNeverReachesTheService) {
  inference_.Hold();
  ModelInferRequest request = SmallRequest();
  request.set_raw_input_contents(0, "1234567");
  ModelInferResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(stub_->ModelInfer(&context, request, &response).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(inference_.held(), 0u);
}

TEST_F(InferRpc, Row36TheCallsDeadlineBecomesTheRequests) {
  inference_.Hold();
  const Nanos before = SteadyClock().Now();
  auto call = StartInfer(SmallRequest(), std::chrono::seconds(30));
  FakeInference::Held held = inference_.Take();
  EXPECT_GT(held.request->deadline, before + 25 * kSecond);
  EXPECT_LT(held.request->deadline, SteadyClock().Now() + 31 * kSecond);  // the wire rounds
  held.Answer();
  call->thread.join();
  EXPECT_TRUE(call->status.ok());

  call = StartInfer(SmallRequest());
  held = inference_.Take();
  EXPECT_EQ(held.request->deadline, kNever);
  held.Answer();
  call->thread.join();

  // Ten years, and a timeout of the request's own that is earlier.
  call = StartInfer(SmallRequest(), std::chrono::hours(24 * 3650));
  held = inference_.Take();
  EXPECT_LE(held.request->deadline, SteadyClock().Now() + limits::kMaxTimeoutSeconds * kSecond);
  held.Answer();
  call->thread.join();
  ModelInferRequest request = SmallRequest();
  (*request.mutable_parameters())["timeout"].set_int64_param(1'000'000);
  call = StartInfer(request, std::chrono::seconds(30));
  held = inference_.Take();
  EXPECT_LT(held.request->deadline, SteadyClock().Now() + kSecond);
  held.Answer();
  call->thread.join();
}

TEST_F(InferRpc, AnAnswerAfterTheDeadlineGoesNowhere) {
  inference_.Hold();
  auto call = StartInfer(SmallRequest(), std::chrono::seconds(6));  // to connect within
  FakeInference::Held held = inference_.Take();
  call->thread.join();
  EXPECT_EQ(call->status.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([&] { return held.request->cancellation->Cancelled(); }));
  held.Fail(Cancelled("queue.cancelled", "cancelled"));
}

TEST_F(InferRpc, AResultAfterTheRequestsTimeoutIsNone) {
  inference_.Hold();
  ModelInferRequest request = SmallRequest();
  (*request.mutable_parameters())["timeout"].set_int64_param(1);  // microsecond
  auto call = StartInfer(request);
  FakeInference::Held held = inference_.Take();
  EXPECT_TRUE(Eventually([&] { return SteadyClock().Now() >= held.request->deadline; }));
  held.Answer();
  call->thread.join();
  EXPECT_EQ(call->status.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_EQ(observer_.requests()[0].code, absl::StatusCode::kDeadlineExceeded);
}

TEST_F(InferRpc, AnUnknownModelIsRefusedBeforeTheTensorsAreLookedAt) {
  inference_.Hold();
  ModelInferRequest request = SmallRequest();
  request.set_raw_input_contents(0, "1234567");  // a byte short
  request.set_model_name("nobody");
  ModelInferResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(stub_->ModelInfer(&context, request, &response).error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(inference_.held(), 0u);
}

TEST_F(InferRpc, ADeadlineThatPassesIsNotTheCallersDoing) {
  inference_.Hold();
  // A caller that does not itself end the call when the deadline comes.
  RawConnection connection(server_->port());
  connection.Send(
      Http2Preface() +
      CallHeaders("/inference.GRPCInferenceService/ModelInfer", 1, {{"grpc-timeout", "6S"}}) +
      CallMessage(SmallRequest().SerializeAsString(), false, 1));
  FakeInference::Held held = inference_.Take();
  EXPECT_TRUE(Eventually([&] { return held.request->cancellation->Cancelled(); }));
  held.Fail(Cancelled("queue.cancelled", "cancelled"));
  ASSERT_EQ(observer_.requests().size(), 1u);
  EXPECT_EQ(observer_.requests()[0].code, absl::StatusCode::kDeadlineExceeded);
}

TEST_F(InferRpc, ACancelledCallCancelsItsRequest) {
  inference_.Hold();
  auto call = StartInfer(SmallRequest());
  FakeInference::Held held = inference_.Take();
  bool told = false;
  held.request->cancellation->OnCancel([&told] { told = true; });
  EXPECT_FALSE(held.request->cancellation->Cancelled());
  call->context.TryCancel();
  call->thread.join();
  EXPECT_EQ(call->status.error_code(), grpc::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return held.request->cancellation->Cancelled(); }));
  held.Fail(Cancelled("queue.cancelled", "cancelled"));
  EXPECT_EQ(observer_.requests()[0].code, absl::StatusCode::kCancelled);
}

TEST_F(InferRpc, ARequestThatAnswersWhenItIsCancelledDoesNotDeadlock) {
  inference_.Hold();
  auto call = StartInfer(SmallRequest());
  FakeInference::Held held = inference_.Take();
  std::atomic<bool> answered = false;
  held.request->cancellation->OnCancel([&] {
    held.Fail(Cancelled("queue.cancelled", "cancelled"));
    answered = true;
  });
  call->context.TryCancel();
  call->thread.join();
  EXPECT_TRUE(Eventually([&] { return answered.load(); }));
}

// Docs/faults.md, row 35: the answer and the cancellation meet anywhere.
TEST_F(InferRpc, CancellationAtAnyMomentEndsTheCallOnce) {
  inference_.Hold();
  for (int round = 0; round < 200; ++round) {
    auto call = StartInfer(SmallRequest());
    FakeInference::Held held = inference_.Take();
    std::thread cancel([&call] { call->context.TryCancel(); });
    if (round % 2 == 0) std::this_thread::yield();
    held.Answer();
    cancel.join();
    call->thread.join();
    EXPECT_TRUE(call->status.ok() || call->status.error_code() == grpc::CANCELLED);
  }
  EXPECT_EQ(observer_.requests().size(), 200u);
}

// Docs/faults.md, row 34.
TEST_F(InferRpc, AClosedConnectionCancelsItsRequests) {
  inference_.Hold();
  std::vector<FakeInference::Held> held;
  {
    RawConnection connection(server_->port());
    connection.Send(Http2Preface());
    for (const int stream : {1, 3, 5}) {
      connection.Send(CallHeaders("/inference.GRPCInferenceService/ModelInfer", stream) +
                      CallMessage(SmallRequest().SerializeAsString(), false, stream));
      held.push_back(inference_.Take());
      EXPECT_FALSE(held.back().request->cancellation->Cancelled());
    }
  }
  for (const FakeInference::Held& one : held) {
    EXPECT_TRUE(Eventually([&] { return one.request->cancellation->Cancelled(); }));
  }
  // Their answers go nowhere, and the server lives.
  for (FakeInference::Held& one : held) one.Answer();
  auto next = StartInfer(SmallRequest());
  inference_.Take().Answer();
  next->thread.join();
  EXPECT_TRUE(next->status.ok());
}

TEST_F(InferRpc, TheObserverIsToldOfEveryRequest) {
  ModelInferResponse response;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->ModelInfer(&context, SmallRequest(), &response).ok());
  }
  {
    inference_.FailWith(NotFound("model.not_found", "no such model"));
    ModelInferRequest request = SmallRequest();
    request.set_model_name("nobody");
    grpc::ClientContext context;
    stub_->ModelInfer(&context, request, &response);
  }
  CallRaw("/fovea.v1.VisionService/Classify", "\xFF");
  const auto requests = observer_.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].protocol, Protocol::kGrpc);
  EXPECT_EQ(requests[0].method, "ModelInfer");
  ASSERT_NE(requests[0].model, nullptr);
  EXPECT_EQ(requests[0].model->view()->name, "vit");
  EXPECT_EQ(requests[0].code, absl::StatusCode::kOk);
  EXPECT_GT(requests[0].stages[Stage::kEncode], 0);
  EXPECT_EQ(requests[1].model, nullptr);
  EXPECT_EQ(requests[1].code, absl::StatusCode::kNotFound);
  EXPECT_EQ(requests[2].method, "Classify");
  EXPECT_EQ(requests[2].code, absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fovea
