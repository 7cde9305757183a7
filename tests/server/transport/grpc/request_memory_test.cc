// What requests make the server hold beside their messages is bounded (docs/faults.md, promise 6).
#include <grpc/compression.h>

#include "base/limits.h"
#include "server/transport/grpc/grpc_status.h"
#include "tests/server/transport/grpc/raw_http2.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

constexpr int64_t kBudget = 1 << 20;
constexpr const char* kInfer = "/inference.GRPCInferenceService/ModelInfer";
constexpr const char* kInferStream = "/inference.GRPCInferenceService/ModelStreamInfer";
constexpr const char* kImageStream = "/fovea.v1.VisionService/StreamImages";

class RequestMemoryRpc : public GrpcServerTest {
 protected:
  RequestMemoryRpc() {
    Start({.port = 0, .max_message_bytes = 4 << 20}, {.request_bytes = kBudget});
  }

  // A tensor of bytes, which the server echoes.
  static ModelInferRequest Bytes(size_t size) {
    ModelInferRequest request = SmallRequest();
    request.mutable_inputs(0)->set_datatype("UINT8");
    request.mutable_inputs(0)->set_shape(0, size);
    request.set_raw_input_contents(0, std::string(size, 'x'));
    return request;
  }

  // The same as an image of StreamImages.
  static v1::StreamImagesRequest StreamedBytes(size_t size) {
    v1::StreamImagesRequest request;
    request.mutable_segment()->set_model_name("vit");
    request.mutable_segment()->add_images(std::string(size, 'x'));
    return request;
  }

  // "OK", or the reason of the error.
  std::string Infer(const ModelInferRequest& request, bool packed = false) {
    grpc::ClientContext context;
    if (packed) context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    ModelInferResponse response;
    if (stub_->ModelInfer(&context, request, &response).ok()) return "OK";
    return ReasonTold(context);
  }
};

TEST_F(RequestMemoryRpc, WhatUnpacksToMoreIsTooMuch) {
  EXPECT_EQ(Infer(Bytes(2 * kBudget), /*packed=*/true), "request.memory");
  EXPECT_EQ(Infer(Bytes(2 * kBudget)), "OK") << "it stays in gRPC's buffers";
  EXPECT_EQ(Infer(Bytes(kBudget / 2), /*packed=*/true), "OK");
}

// While a file is written down it is there twice (docs/faults.md, row 75).
TEST_F(RequestMemoryRpc, SentFilesHaveRoomForTheLargestOnceMore) {
  const auto load = [this](const std::vector<size_t>& sizes) {
    inference::RepositoryModelLoadRequest request;
    request.set_model_name("vit");
    (*request.mutable_parameters())["config"].set_string_param("{}");
    for (const size_t size : sizes) {
      const std::string name = "file:" + std::to_string(size) + "/model.safetensors";
      (*request.mutable_parameters())[name].set_bytes_param(std::string(size, 'w'));
    }
    grpc::ClientContext context;
    inference::RepositoryModelLoadResponse response;
    const grpc::Status status = stub_->RepositoryModelLoad(&context, request, &response);
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::RESOURCE_EXHAUSTED);
    return status.ok() ? "OK" : ReasonTold(context);
  };
  for (int i = 0; i < 3; ++i) {  // and all of it is given back
    EXPECT_EQ(load({kBudget * 6 / 10}), "request.memory") << "one copy has room, two have not";
    EXPECT_EQ(load({kBudget * 4 / 10}), "OK");
    EXPECT_EQ(load({kBudget * 4 / 10, kBudget * 4 / 10 - 1}), "request.memory");
    EXPECT_EQ(load({kBudget * 3 / 10, kBudget * 3 / 10 - 1}), "OK");
  }
  EXPECT_TRUE(Eventually([this] { return server_->api->memory().held() == 0; }));
}

TEST_F(RequestMemoryRpc, TypedContentsThatAreConvertedCount) {
  const auto typed = [](int64_t elements) {
    ModelInferRequest request = SmallRequest();
    request.clear_raw_input_contents();
    auto* input = request.mutable_inputs(0);
    input->set_datatype("INT64");
    input->set_shape(0, elements);
    input->mutable_contents()->mutable_int64_contents()->Resize(elements, 1);
    return request;
  };
  EXPECT_EQ(Infer(typed(2 * kBudget / 8)), "request.memory");
  EXPECT_EQ(Infer(typed(kBudget / 32)), "OK");
}

TEST_F(RequestMemoryRpc, WhoFindsNoneLeftIsRefusedUntilThereIs) {
  inference_.Hold();
  std::thread first([this] { EXPECT_EQ(Infer(SmallRequest()), "OK"); });
  FakeInference::Held held = inference_.Take();
  while (held.request->TakeMemory(limits::kKiB).ok()) {
  }
  EXPECT_EQ(Infer(SmallRequest()), "server.request_memory");
  // What an operator's probes ask is answered all the same.
  grpc::health::v1::HealthCheckResponse health;
  grpc::ClientContext context;
  EXPECT_TRUE(health_->Check(&context, {}, &health).ok());
  held.Answer();
  first.join();
  std::thread second([this] { EXPECT_EQ(Infer(SmallRequest()), "OK"); });
  inference_.Take().Answer();
  second.join();
}

// Answers wait for their caller to read them: of a stream up to limits::kMaxStreamRequestsInFlight.
class UnreadAnswers : public RequestMemoryRpc, public ::testing::WithParamInterface<const char*> {};

TEST_P(UnreadAnswers, CountUntilTheyHaveLeft) {
  inference_.Hold();
  auto caller = std::make_unique<RawConnection>(server_->port());
  constexpr int kSettings = 4;
  const std::string no_window("\0\x04\0\0\0\0", 6);  // SETTINGS_INITIAL_WINDOW_SIZE: 0
  caller->Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Http2Frame(kSettings, 0, 0, no_window));
  constexpr size_t kBytes = 40'000;  // within the windows that a connection starts with
  const std::string message = GetParam() == kImageStream ? StreamedBytes(kBytes).SerializeAsString()
                                                         : Bytes(kBytes).SerializeAsString();
  caller->Send(CallHeaders(GetParam(), 1) + CallMessage(message, false, 1, 16'000));
  FakeInference::Held unread = inference_.Take();
  ASSERT_TRUE(unread.request->TakeMemory(kBudget / 2).ok());
  unread.Answer();

  const auto take_all = [this](int64_t bytes) {
    absl::Status taken;
    std::thread other([this] { EXPECT_EQ(Infer(SmallRequest()), "OK"); });
    FakeInference::Held held = inference_.Take();
    taken = held.request->TakeMemory(bytes);
    held.Answer();
    other.join();
    return taken;
  };
  // The answer is counted by its length now, and nothing else of its request.
  const int64_t records = 4 * limits::kRequestRecordBytes;
  EXPECT_TRUE(take_all(kBudget - kBytes - records).ok());
  EXPECT_EQ(take_all(kBudget - kBytes).code(), absl::StatusCode::kUnavailable);
  caller.reset();
  EXPECT_TRUE(Eventually([&] { return take_all(kBudget - records).ok(); }));
}

INSTANTIATE_TEST_SUITE_P(Methods, UnreadAnswers,
                         ::testing::Values(kInfer, kInferStream, kImageStream),
                         [](const auto& info) {
                           return std::string(info.param == kInfer         ? "Infer"
                                              : info.param == kInferStream ? "InferStream"
                                                                           : "ImageStream");
                         });

}  // namespace
}  // namespace fovea
