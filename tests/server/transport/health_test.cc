// Health checking and reflection.
#include <gmock/gmock.h>

#include <thread>

#include "tests/server/transport/server_testing.h"

namespace fovea {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::health::v1::HealthListResponse;

class HealthRpc : public GrpcServerTest {
 protected:
  // The status's name, or the error's number.
  std::string Check(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    HealthCheckResponse response;
    grpc::ClientContext context;
    const grpc::Status status = health_->Check(&context, request, &response);
    return status.ok() ? HealthCheckResponse::ServingStatus_Name(response.status())
                       : std::to_string(status.error_code());
  }
};

TEST_F(HealthRpc, TheServerItsServicesAndItsModelsServe) {
  for (const char* service : {"", "inference.GRPCInferenceService", "fovea.v1.VisionService",
                              "model/vit", "model/vit/1"}) {
    EXPECT_EQ(Check(service), "SERVING") << service;
  }
}

TEST_F(HealthRpc, NothingServesBeforeTheServerDoesAndAfterwards) {
  auto created =
      GrpcServer::Create({.port = 0}, inference_, catalog_, catalog_, nullptr, SteadyClock());
  ASSERT_TRUE(created.ok());
  server_ = *std::move(created);
  health_ = grpc::health::v1::Health::NewStub(NewChannel());
  EXPECT_EQ(Check(""), "NOT_SERVING");
  EXPECT_EQ(Check("model/vit"), "NOT_SERVING");
  server_->SetServing(true);
  EXPECT_EQ(Check(""), "SERVING");
  EXPECT_EQ(Check("model/vit"), "SERVING");
  server_->SetServing(false);
  EXPECT_EQ(Check(""), "NOT_SERVING");
  EXPECT_EQ(Check("fovea.v1.VisionService"), "NOT_SERVING");
  EXPECT_EQ(Check("model/vit/1"), "NOT_SERVING");
}

TEST_F(HealthRpc, AnUnloadedModelDoesNotServeAndAnUnknownOneIsNotFound) {
  ASSERT_TRUE(catalog_.Unload("vit").ok());
  EXPECT_EQ(Check("model/vit"), "NOT_SERVING");
  EXPECT_EQ(Check("model/vit/1"), "NOT_SERVING");
  EXPECT_EQ(Check(""), "SERVING");
  const std::string not_found = std::to_string(grpc::NOT_FOUND);
  for (const char* service : {"model/", "model/swin", "model/vit/2", "model/vit/", "nobody"}) {
    EXPECT_EQ(Check(service), not_found) << service;
  }
}

TEST_F(HealthRpc, AWatchIsToldOfEveryChangeAndEndsWithTheServer) {
  HealthCheckRequest request;
  request.set_service("model/vit");
  grpc::ClientContext context;
  auto watch = health_->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  ASSERT_TRUE(catalog_.Unload("vit").ok());
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  ASSERT_TRUE(catalog_.Load("vit", "").ok());
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  EXPECT_EQ(server_->Shutdown(10 * kSecond), 0);
  while (watch->Read(&response)) {
    EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::UNAVAILABLE);
}

TEST_F(HealthRpc, AWatchOfAnUnknownServiceWaitsForIt) {
  ASSERT_TRUE(catalog_.Unload("vit").ok());
  HealthCheckRequest request;
  request.set_service("nobody");
  grpc::ClientContext context;
  auto watch = health_->Watch(&context, request);
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  context.TryCancel();
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::CANCELLED);
}

TEST_F(HealthRpc, AWatcherThatGoesAwayIsForgotten) {
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    auto watch = health_->Watch(&context, HealthCheckRequest());
    HealthCheckResponse response;
    ASSERT_TRUE(watch->Read(&response));
    context.TryCancel();
    server_->SetServing(i % 2 == 0);
    watch->Finish();
  }
  EXPECT_EQ(server_->Shutdown(kSecond), 0);
}

TEST_F(HealthRpc, ListNamesThemAll) {
  HealthListResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(health_->List(&context, {}, &response).ok());
  std::vector<std::string> names;
  for (const auto& [name, status] : response.statuses()) names.push_back(name);
  EXPECT_THAT(
      names, ::testing::UnorderedElementsAre("", "inference.GRPCInferenceService",
                                             "fovea.v1.VisionService", "model/vit", "model/vit/1"));
}

// One question on grpc.reflection.v1alpha.ServerReflection, whose messages are written out here:
// their proto is not installed with the library.
std::string AskReflection(const std::shared_ptr<grpc::Channel>& channel,
                          const std::string& question) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ok;
  };
  auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  wait();
  grpc::Slice slice(question);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  wait();
  grpc::ByteBuffer buffer;
  call->Read(&buffer, nullptr);
  if (!wait()) return "";
  std::vector<grpc::Slice> slices;
  buffer.Dump(&slices);
  std::string answer;
  for (const grpc::Slice& piece : slices) {
    answer.append(reinterpret_cast<const char*>(piece.begin()), piece.size());
  }
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  return answer;
}

TEST_F(HealthRpc, ReflectionKnowsTheServicesAndTheirMessages) {
  using ::testing::HasSubstr;
  const std::string services = AskReflection(channel_, std::string("\x3A\x00", 2));
  EXPECT_THAT(services, HasSubstr("inference.GRPCInferenceService"));
  EXPECT_THAT(services, HasSubstr("fovea.v1.VisionService"));
  EXPECT_THAT(services, HasSubstr("grpc.health.v1.Health"));
  // file_containing_symbol
  for (const std::string symbol :
       {"inference.ModelInferRequest", "fovea.v1.ClassifyRequest", "grpc.health.v1.Health"}) {
    std::string question = "\x22";
    question.push_back(static_cast<char>(symbol.size()));
    EXPECT_THAT(AskReflection(channel_, question + symbol),
                HasSubstr(symbol.substr(symbol.rfind('.') + 1)))
        << symbol;
  }
}

}  // namespace
}  // namespace fovea
