// grpc.reflection.v1 and v1alpha.
#include <gmock/gmock.h>

#include <fstream>

#include "base/limits.h"
#include "proto/grpc/reflection/v1/reflection.grpc.pb.h"
#include "proto/grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

using grpc::reflection::v1::ServerReflection;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

using Stream = grpc::ClientReaderWriter<ServerReflectionRequest, ServerReflectionResponse>;

class ReflectionRpc : public GrpcServerTest {
 protected:
  // One question on a stream of its own.
  ServerReflectionResponse Ask(const ServerReflectionRequest& question) {
    grpc::ClientContext context;
    auto stream = ServerReflection::NewStub(channel_)->ServerReflectionInfo(&context);
    ServerReflectionResponse answer;
    EXPECT_TRUE(stream->Write(question));
    EXPECT_TRUE(stream->Read(&answer));
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
    return answer;
  }
};

// Names of the files in an answer, the first one first.
std::vector<std::string> Files(const ServerReflectionResponse& answer) {
  std::vector<std::string> names;
  for (const std::string& bytes : answer.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
  }
  return names;
}

int Threads() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int threads = 0;
    if (word == "Threads:" && status >> threads) return threads;
  }
  return 0;
}

TEST_F(ReflectionRpc, TellsTheServices) {
  ServerReflectionRequest question;
  question.set_list_services("");
  const ServerReflectionResponse answer = Ask(question);
  std::vector<std::string> services;
  for (const auto& service : answer.list_services_response().service()) {
    services.push_back(service.name());
  }
  EXPECT_THAT(services, ElementsAre("inference.GRPCInferenceService", "fovea.v1.VisionService",
                                    "fovea.v1.ComparisonService", "fovea.v1.ExperimentService",
                                    "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                    "grpc.reflection.v1alpha.ServerReflection"));
}

TEST_F(ReflectionRpc, AFileComesWithWhatItImports) {
  ServerReflectionRequest question;
  for (const char* symbol : {"inference.ModelInferRequest", "inference.GRPCInferenceService",
                             "inference.GRPCInferenceService.ModelInfer"}) {
    question.set_file_containing_symbol(symbol);
    EXPECT_THAT(Files(Ask(question)),
                ElementsAre("inference/inference.proto", "inference/model_config.proto"))
        << symbol;
  }
  question.set_file_by_filename("grpc/health/v1/health.proto");
  EXPECT_THAT(Files(Ask(question)), ElementsAre("grpc/health/v1/health.proto"));
}

TEST_F(ReflectionRpc, ExtensionsAreTold) {
  ServerReflectionRequest question;
  question.set_all_extension_numbers_of_type("inference.ModelInferRequest");
  const ServerReflectionResponse none = Ask(question);
  EXPECT_EQ(none.all_extension_numbers_response().base_type_name(), "inference.ModelInferRequest");
  EXPECT_EQ(none.all_extension_numbers_response().extension_number_size(), 0);
  question.mutable_file_containing_extension()->set_containing_type("inference.ModelInferRequest");
  question.mutable_file_containing_extension()->set_extension_number(7);
  EXPECT_EQ(Ask(question).error_response().error_code(), grpc::NOT_FOUND);
}

TEST_F(ReflectionRpc, WhatIsUnknownIsAnErrorAndTheStreamGoesOn) {
  grpc::ClientContext context;
  auto stream = ServerReflection::NewStub(channel_)->ServerReflectionInfo(&context);
  ServerReflectionRequest question;
  question.set_host("a host");
  ServerReflectionResponse answer;
  ASSERT_TRUE(stream->Write(question) && stream->Read(&answer));
  EXPECT_EQ(answer.error_response().error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(answer.valid_host(), "a host");
  question.set_file_containing_symbol("inference.NoSuchThing");
  ASSERT_TRUE(stream->Write(question) && stream->Read(&answer));
  EXPECT_EQ(answer.error_response().error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(answer.original_request().file_containing_symbol(), "inference.NoSuchThing");
  question.set_all_extension_numbers_of_type("inference.NoSuchThing");
  ASSERT_TRUE(stream->Write(question) && stream->Read(&answer));
  EXPECT_EQ(answer.error_response().error_code(), grpc::NOT_FOUND);
  question.set_file_by_filename("fovea/v1/vision.proto");
  ASSERT_TRUE(stream->Write(question) && stream->Read(&answer));
  EXPECT_THAT(Files(answer), Contains("fovea/v1/vision.proto"));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ReflectionRpc, TheOlderNameAnswersAlike) {
  grpc::ClientContext context;
  auto stream =
      grpc::reflection::v1alpha::ServerReflection::NewStub(channel_)->ServerReflectionInfo(
          &context);
  grpc::reflection::v1alpha::ServerReflectionRequest question;
  question.set_file_containing_symbol("fovea.v1.VisionService");
  grpc::reflection::v1alpha::ServerReflectionResponse answer;
  ASSERT_TRUE(stream->Write(question) && stream->Read(&answer));
  EXPECT_EQ(answer.file_descriptor_response().file_descriptor_proto_size(), 1);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ReflectionRpc, ALongQuestionEndsItsStream) {
  grpc::ClientContext context;
  auto stream = ServerReflection::NewStub(channel_)->ServerReflectionInfo(&context);
  ServerReflectionRequest question;
  question.set_file_containing_symbol(std::string(limits::kMaxControlMessageBytes, 'x'));
  ServerReflectionResponse answer;
  stream->Write(question);
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
}

// docs/faults.md, rows 38 and 99.
TEST_F(ReflectionRpc, IdleStreamsHoldNoThreadsAndAreBounded) {
  auto stub = ServerReflection::NewStub(channel_);
  ServerReflectionRequest question;
  question.set_list_services("");
  ServerReflectionResponse answer;
  Ask(question);  // whatever threads a first call starts, here and there
  const int before = Threads();
  std::deque<grpc::ClientContext> contexts;
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < limits::kMaxReflectionStreamsPerConnection; ++i) {
    streams.push_back(stub->ServerReflectionInfo(&contexts.emplace_back()));
    ASSERT_TRUE(streams.back()->Write(question) && streams.back()->Read(&answer)) << i;
  }
  EXPECT_LT(Threads() - before, 8) << "for " << streams.size() << " idle streams";
  grpc::ClientContext context;
  auto refused = stub->ServerReflectionInfo(&context);
  EXPECT_FALSE(refused->Read(&answer));
  EXPECT_EQ(refused->Finish().error_code(), grpc::UNAVAILABLE);
  // The server does not wait for them.
  EXPECT_EQ(server_->Shutdown(0), 0);
  for (auto& stream : streams) {
    EXPECT_FALSE(stream->Read(&answer));
    EXPECT_FALSE(stream->Finish().ok());
  }
}

}  // namespace
}  // namespace fovea
