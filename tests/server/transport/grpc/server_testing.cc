#include "tests/server/transport/grpc/server_testing.h"

#include <utility>
#include <vector>

#include "server/transport/grpc/grpc_status.h"

namespace fovea {

void GrpcServerTest::StartNotServing(const GrpcServerOptions& options,
                                     const ServerApiOptions& api_options) {
  server_.reset();
  auto api = ServerApi::Create(api_options, catalog_, catalog_, &observer_, SteadyClock());
  ASSERT_TRUE(api.ok()) << api.status();
  auto grpc = GrpcServer::Create(options, **api);
  ASSERT_TRUE(grpc.ok()) << grpc.status();
  server_ = std::make_unique<GrpcTestServer>();
  server_->api = *std::move(api);
  server_->grpc = *std::move(grpc);
  channel_ = NewChannel();
  stub_ = inference::GRPCInferenceService::NewStub(channel_);
  vision_ = v1::VisionService::NewStub(channel_);
  health_ = grpc::health::v1::Health::NewStub(channel_);
}

std::shared_ptr<grpc::Channel> GrpcServerTest::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // Not the connection of another test's channel to the same port.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(server_->port()),
                                   grpc::InsecureChannelCredentials(), arguments);
}

grpc::Status GrpcServerTest::CallRaw(const std::string& method, const std::string& message,
                                     std::string* answer, grpc::ClientContext* context) {
  grpc::ClientContext own_context;
  grpc::Slice slice(message);
  grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel_);
  auto call =
      stub.PrepareUnaryCall(context != nullptr ? context : &own_context, method, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag;
  bool ok;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (answer != nullptr && response.Dump(&slices).ok()) {
    answer->clear();
    for (const grpc::Slice& piece : slices) {
      answer->append(reinterpret_cast<const char*>(piece.begin()), piece.size());
    }
  }
  return status;
}

std::string ReasonTold(const grpc::ClientContext& context) {
  const auto& trailer = context.GetServerTrailingMetadata();
  const auto reason = trailer.find(kReasonMetadata);
  return reason == trailer.end() ? "" : std::string(reason->second.data(), reason->second.size());
}

inference::ModelInferRequest SmallRequest(const std::string& id) {
  inference::ModelInferRequest request;
  request.set_model_name("vit");
  request.set_id(id);
  auto* input = request.add_inputs();
  input->set_name("pixel_values");
  input->set_datatype("FP32");
  input->add_shape(2);
  request.add_raw_input_contents("12345678");
  return request;
}

}  // namespace fovea
