// The RPCs that carry no images, but for the repository's.
#include <gmock/gmock.h>

#include "tests/server/shared_memory/fake_shared_memory.h"
#include "tests/server/transport/grpc/server_testing.h"

namespace fovea {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
using namespace inference;  // NOLINT: the protocol's messages are the test's words

class ControlRpc : public GrpcServerTest {};

TEST_F(ControlRpc, TheServerIsLiveAndReadyWhenItServes) {
  ServerLiveResponse live;
  ServerReadyResponse ready;
  grpc::ClientContext contexts[3];
  ASSERT_TRUE(stub_->ServerLive(&contexts[0], {}, &live).ok());
  EXPECT_TRUE(live.live());
  ASSERT_TRUE(stub_->ServerReady(&contexts[1], {}, &ready).ok());
  EXPECT_TRUE(ready.ready());
  server_->SetServing(false);
  ASSERT_TRUE(stub_->ServerReady(&contexts[2], {}, &ready).ok());
  EXPECT_FALSE(ready.ready());
}

TEST_F(ControlRpc, AModelIsReadyOrNotAndOnlyABadNameIsAnError) {
  const auto ready = [this](const std::string& name, const std::string& version) {
    ModelReadyRequest request;
    request.set_name(name);
    request.set_version(version);
    ModelReadyResponse response;
    grpc::ClientContext context;
    const grpc::Status status = stub_->ModelReady(&context, request, &response);
    return std::make_pair(status.error_code(), response.ready());
  };
  EXPECT_EQ(ready("vit", ""), std::make_pair(grpc::OK, true));
  EXPECT_EQ(ready("vit", "1"), std::make_pair(grpc::OK, true));
  EXPECT_EQ(ready("vit", "9"), std::make_pair(grpc::OK, false));
  EXPECT_EQ(ready("nobody", ""), std::make_pair(grpc::OK, false));
  EXPECT_EQ(ready("bad/name", ""), std::make_pair(grpc::INVALID_ARGUMENT, false));
}

TEST_F(ControlRpc, TheMetadataPromisesOnlyWhatThereIs) {
  ServerMetadataResponse metadata;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->ServerMetadata(&context, {}, &metadata).ok());
  EXPECT_EQ(metadata.name(), "fovea");
  EXPECT_EQ(metadata.version(), "1.2.3");
  EXPECT_THAT(metadata.extensions(),
              UnorderedElementsAre("classification", "model_configuration", "model_repository",
                                   "schedule_policy", "statistics", "logging"));
}

TEST_F(ControlRpc, AModelsMetadataNamesTheBatchAndTheOtherInputs) {
  ModelMetadataRequest request;
  request.set_name("vit");
  ModelMetadataResponse metadata;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->ModelMetadata(&context, request, &metadata).ok());
  EXPECT_EQ(metadata.name(), "vit");
  EXPECT_THAT(metadata.versions(), ElementsAre("1"));
  EXPECT_EQ(metadata.platform(), "fovea_libtorch");
  ASSERT_EQ(metadata.inputs_size(), 1);
  EXPECT_EQ(metadata.inputs(0).name(), "pixel_values");
  EXPECT_EQ(metadata.inputs(0).datatype(), "FP32");
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, 3, 224, 224));
  EXPECT_THAT(metadata.outputs(0).shape(), ElementsAre(-1, 1000));
  EXPECT_EQ(metadata.properties().at("fovea.inputs"), "pixel_values,image,image_rgb");
}

TEST_F(ControlRpc, AModelsConfigurationIsWhatGenericClientsRead) {
  ModelConfigRequest request;
  request.set_name("vit");
  ModelConfigResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->ModelConfig(&context, request, &response).ok());
  const ModelConfig& config = response.config();
  EXPECT_EQ(config.name(), "vit");
  EXPECT_EQ(config.platform(), "fovea_libtorch");
  EXPECT_EQ(config.backend(), "fovea");
  EXPECT_EQ(config.max_batch_size(), 16);
  ASSERT_EQ(config.input_size(), 1);
  EXPECT_EQ(config.input(0).data_type(), TYPE_FP32);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(3, 224, 224));
  EXPECT_EQ(config.input(0).format(), ModelInput::FORMAT_NCHW);
  EXPECT_THAT(config.output(0).dims(), ElementsAre(1000));
  EXPECT_EQ(config.output(0).label_filename(), "labels.txt");
  ASSERT_TRUE(config.has_dynamic_batching());
  EXPECT_THAT(config.dynamic_batching().preferred_batch_size(), ElementsAre(4, 8));
  EXPECT_EQ(config.dynamic_batching().max_queue_delay_microseconds(), 500u);
  EXPECT_EQ(config.dynamic_batching().priority_levels(), 3u);
  EXPECT_EQ(config.dynamic_batching().default_priority_level(), 2u);
  EXPECT_EQ(config.dynamic_batching().default_queue_policy().default_timeout_microseconds(),
            1'000'000u);
  EXPECT_EQ(config.dynamic_batching().default_queue_policy().max_queue_size(), 64u);
  EXPECT_EQ(config.dynamic_batching().default_queue_policy().timeout_action(),
            ModelQueuePolicy::REJECT);
  EXPECT_TRUE(config.dynamic_batching().default_queue_policy().allow_timeout_override());
  const auto& policies = config.dynamic_batching().priority_queue_policy();
  ASSERT_EQ(policies.size(), 2u);
  EXPECT_FALSE(policies.at(1).allow_timeout_override());
  EXPECT_EQ(policies.at(1).max_queue_size(), 256u);
  EXPECT_EQ(policies.at(3).timeout_action(), ModelQueuePolicy::DELAY);
  EXPECT_EQ(policies.at(3).default_timeout_microseconds(), 2'000u);
  EXPECT_EQ(config.instance_group(0).count(), 2);
  EXPECT_EQ(config.instance_group(0).rate_limiter().priority(), 4u);
  EXPECT_EQ(config.instance_group(0).kind(), ModelInstanceGroup::KIND_CPU);
  EXPECT_FALSE(config.model_transaction_policy().decoupled());
  EXPECT_EQ(config.parameters().at("fovea.inputs").string_value(), "pixel_values,image,image_rgb");
}

TEST_F(ControlRpc, StatisticsAreThoseOfTheExtension) {
  ModelStatisticsRequest request;
  request.set_name("vit");
  ModelStatisticsResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->ModelStatistics(&context, request, &response).ok());
  ASSERT_EQ(response.model_stats_size(), 1);
  const auto& model = response.model_stats(0);
  EXPECT_EQ(model.name(), "vit");
  EXPECT_EQ(model.last_inference(), 123u);
  EXPECT_EQ(model.inference_count(), 9u);
  EXPECT_EQ(model.execution_count(), 4u);
  EXPECT_EQ(model.inference_stats().success().count(), 3u);
  EXPECT_EQ(model.inference_stats().success().ns(), 300u);
  EXPECT_EQ(model.inference_stats().fail().ns(), 10u);
  EXPECT_EQ(model.inference_stats().queue().ns(), 30u);
  EXPECT_EQ(model.inference_stats().compute_input().ns(), 31u);
  EXPECT_EQ(model.inference_stats().compute_infer().ns(), 32u);
  EXPECT_EQ(model.inference_stats().compute_output().ns(), 33u);
  EXPECT_TRUE(model.inference_stats().has_cache_hit());
  ASSERT_EQ(model.batch_stats_size(), 1);
  EXPECT_EQ(model.batch_stats(0).batch_size(), 4u);
  EXPECT_EQ(model.batch_stats(0).compute_output().ns(), 4u);
  ASSERT_EQ(model.memory_usage_size(), 1);
  EXPECT_EQ(model.memory_usage(0).type(), "CPU");
  EXPECT_EQ(model.memory_usage(0).byte_size(), 1024u);
}

TEST_F(ControlRpc, AnUnknownModelIsNotFoundByEveryRpc) {
  ModelMetadataRequest metadata;
  metadata.set_name("nobody");
  ModelConfigRequest config;
  config.set_name("nobody");
  ModelStatisticsRequest statistics;
  statistics.set_name("nobody");
  ModelMetadataResponse metadata_response;
  ModelConfigResponse config_response;
  ModelStatisticsResponse statistics_response;
  grpc::ClientContext contexts[3];
  const grpc::Status statuses[] = {
      stub_->ModelMetadata(&contexts[0], metadata, &metadata_response),
      stub_->ModelConfig(&contexts[1], config, &config_response),
      stub_->ModelStatistics(&contexts[2], statistics, &statistics_response)};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(statuses[i].error_code(), grpc::NOT_FOUND);
    EXPECT_EQ(ReasonTold(contexts[i]), "model.not_found");
  }
}

// Docs/faults.md, row 25.
TEST_F(ControlRpc, StatisticsOfANameThatNoModelCanHaveAreAnInvalidArgument) {
  ModelStatisticsRequest request;
  request.set_name("bad/name");
  ModelStatisticsResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(stub_->ModelStatistics(&context, request, &response).error_code(),
            grpc::INVALID_ARGUMENT);
}

TEST_F(ControlRpc, Row52SharedMemoryIsEmptyAndCannotBeRegistered) {
  grpc::ClientContext contexts[6];
  SystemSharedMemoryStatusResponse system_status;
  EXPECT_TRUE(stub_->SystemSharedMemoryStatus(&contexts[0], {}, &system_status).ok());
  EXPECT_TRUE(system_status.regions().empty());
  CudaSharedMemoryStatusResponse cuda_status;
  EXPECT_TRUE(stub_->CudaSharedMemoryStatus(&contexts[1], {}, &cuda_status).ok());
  SystemSharedMemoryUnregisterResponse system_unregister;
  EXPECT_TRUE(stub_->SystemSharedMemoryUnregister(&contexts[2], {}, &system_unregister).ok());
  CudaSharedMemoryUnregisterResponse cuda_unregister;
  EXPECT_TRUE(stub_->CudaSharedMemoryUnregister(&contexts[3], {}, &cuda_unregister).ok());
  SystemSharedMemoryRegisterRequest system_register;
  system_register.set_key("/");
  SystemSharedMemoryRegisterResponse system_registered;
  EXPECT_EQ(stub_->SystemSharedMemoryRegister(&contexts[4], system_register, &system_registered)
                .error_code(),
            grpc::UNIMPLEMENTED);
  CudaSharedMemoryRegisterResponse cuda_registered;
  EXPECT_EQ(stub_->CudaSharedMemoryRegister(&contexts[5], {}, &cuda_registered).error_code(),
            grpc::UNIMPLEMENTED);
}

TEST_F(ControlRpc, SharedMemoryIsRegisteredToldAndUnregistered) {
  FakeSharedMemory memory;
  memory.Create("/object", "0123456789");
  Start({.port = 0}, {.shared_memory = std::make_shared<SharedMemoryRegions>(memory.Opener())});
  SystemSharedMemoryRegisterRequest region;
  region.set_name("r");
  region.set_key("/object");
  region.set_offset(2);
  region.set_byte_size(8);
  grpc::ClientContext contexts[6];
  SystemSharedMemoryRegisterResponse registered;
  ASSERT_TRUE(stub_->SystemSharedMemoryRegister(&contexts[0], region, &registered).ok());
  EXPECT_EQ(stub_->SystemSharedMemoryRegister(&contexts[1], region, &registered).error_code(),
            grpc::ALREADY_EXISTS);
  SystemSharedMemoryStatusResponse status;
  ASSERT_TRUE(stub_->SystemSharedMemoryStatus(&contexts[2], {}, &status).ok());
  ASSERT_EQ(status.regions().size(), 1u);
  const auto& told = status.regions().at("r");
  EXPECT_EQ(told.name() + told.key(), "r/object");
  EXPECT_EQ(told.offset(), 2u);
  EXPECT_EQ(told.byte_size(), 8u);
  SystemSharedMemoryUnregisterRequest unregister;
  unregister.set_name("r");
  SystemSharedMemoryUnregisterResponse unregistered;
  EXPECT_TRUE(stub_->SystemSharedMemoryUnregister(&contexts[3], unregister, &unregistered).ok());
  SystemSharedMemoryStatusRequest of_one;
  of_one.set_name("r");
  EXPECT_EQ(stub_->SystemSharedMemoryStatus(&contexts[4], of_one, &status).error_code(),
            grpc::NOT_FOUND);
}

TEST_F(ControlRpc, TraceAndLogSettingsAreTold) {
  grpc::ClientContext contexts[6];
  TraceSettingRequest trace;
  TraceSettingResponse traced;
  ASSERT_TRUE(stub_->TraceSetting(&contexts[0], trace, &traced).ok());
  EXPECT_THAT(traced.settings().at("trace_level").value(), ElementsAre("OFF"));
  (*trace.mutable_settings())["trace_level"].add_value("TIMESTAMPS");
  EXPECT_EQ(stub_->TraceSetting(&contexts[1], trace, &traced).error_code(), grpc::UNIMPLEMENTED);
  LogSettingsRequest log;
  LogSettingsResponse logged;
  EXPECT_TRUE(stub_->LogSettings(&contexts[2], log, &logged).ok());
  EXPECT_EQ(logged.settings_size(), 6);
  EXPECT_TRUE(logged.settings().at("log_info").bool_param());
  (*log.mutable_settings())["log_file"].set_string_param("/tmp/log");
  EXPECT_EQ(stub_->LogSettings(&contexts[3], log, &logged).error_code(), grpc::UNIMPLEMENTED);
  log.clear_settings();
  (*log.mutable_settings())["log_info"].set_bool_param(true);
  (*log.mutable_settings())["log_verbose_level"];  // no value: as at the start
  EXPECT_TRUE(stub_->LogSettings(&contexts[4], log, &logged).ok());
  trace.clear_settings();
  trace.set_model_name("no_such_model");
  EXPECT_EQ(stub_->TraceSetting(&contexts[5], trace, &traced).error_code(), grpc::NOT_FOUND);
}

// Docs/faults.md, row 1: of every method, not of those with images only.
TEST_F(ControlRpc, BytesThatAreNoMessageAreAnInvalidArgument) {
  const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
      "inference.GRPCInferenceService");
  ASSERT_NE(service, nullptr);
  int methods = 0;
  for (int i = 0; i < service->method_count(); ++i) {
    const auto* method = service->method(i);
    if (method->client_streaming()) continue;
    const grpc::Status status =
        CallRaw("/inference.GRPCInferenceService/" + method->name(), "\xFF\xFF\xFF");
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << method->name();
    EXPECT_EQ(status.error_message(), "the message is no valid protobuf");
    ++methods;
  }
  EXPECT_EQ(methods, 19);
  EXPECT_EQ(CallRaw("/fovea.v1.VisionService/Classify", "\xFF").error_code(),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(CallRaw("/inference.GRPCInferenceService/NoSuchMethod", "").error_code(),
            grpc::UNIMPLEMENTED);
}

TEST_F(ControlRpc, AnUnusableAddressOrOptionIsAnError) {
  const auto create = [this](GrpcServerOptions options) {
    return GrpcServer::Create(options, *server_->api).status().code();
  };
  EXPECT_EQ(create({.port = server_->port()}), absl::StatusCode::kUnavailable);
  EXPECT_EQ(create({.host = "192.0.2.1", .port = 0}), absl::StatusCode::kUnavailable);
  const std::string no_host(64, 'x');  // longer than DNS carries: nobody is asked
  EXPECT_EQ(create({.host = no_host, .port = 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({.port = -1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({.port = 70'000}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({.port = 0, .max_message_bytes = 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({.port = 0, .max_answer_bytes = 0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(create({.port = 0, .max_message_bytes = 100, .max_buffer_bytes = 99}),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace fovea
