// A server on loopback with nothing behind it but what a test says.
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "proto/fovea/v1/vision.grpc.pb.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/inference/inference.grpc.pb.h"
#include "server/api/server_api.h"
#include "server/transport/grpc/grpc_server.h"
#include "tests/server/api/fakes.h"
#include "tests/server/eventually.h"

namespace fovea {

// The api with gRPC for its one transport. Drains at once when it goes.
struct GrpcTestServer {
  ~GrpcTestServer() { Shutdown(0); }
  int Shutdown(Nanos timeout) {
    Transport* const transports[] = {grpc.get()};
    return api->Drain(transports, timeout);
  }
  void SetServing(bool serving) { api->SetServing(serving); }
  int port() const { return grpc->port(); }

  std::unique_ptr<ServerApi> api;
  std::unique_ptr<GrpcServer> grpc;
};

class GrpcServerTest : public ::testing::Test {
 protected:
  GrpcServerTest() { Start(); }

  // Replaces the server and the stubs' channel.
  void Start(const GrpcServerOptions& options = {.port = 0},
             const ServerApiOptions& api_options = {.server_version = "1.2.3"}) {
    StartNotServing(options, api_options);
    server_->SetServing(true);
  }
  void StartNotServing(const GrpcServerOptions& options = {.port = 0},
                       const ServerApiOptions& api_options = {.server_version = "1.2.3"});
  // A channel of its own connection.
  std::shared_ptr<grpc::Channel> NewChannel() const;

  // Any method, any bytes.
  grpc::Status CallRaw(const std::string& method, const std::string& message,
                       std::string* answer = nullptr, grpc::ClientContext* context = nullptr);

  FakeInference inference_;
  FakeCatalog catalog_{inference_};
  RecordingObserver observer_;
  std::unique_ptr<GrpcTestServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  std::unique_ptr<v1::VisionService::Stub> vision_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

// The reason token of a call that has ended; empty where it was told none.
std::string ReasonTold(const grpc::ClientContext& context);

// A ModelInfer of "vit" with one small FP32 tensor.
inference::ModelInferRequest SmallRequest(const std::string& id = "");

}  // namespace fovea
