// Health checking.
#include <gmock/gmock.h>

#include <deque>
#include <thread>

#include "base/limits.h"
#include "tests/resident_bytes.h"
#include "tests/server/transport/grpc/server_testing.h"

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
  for (const char* service :
       {"", "inference.GRPCInferenceService", "fovea.v1.VisionService",
        "fovea.v1.ComparisonService", "fovea.v1.ExperimentService", "model/vit", "model/vit/1"}) {
    EXPECT_EQ(Check(service), "SERVING") << service;
  }
}

TEST_F(HealthRpc, NothingServesBeforeTheServerDoesAndAfterwards) {
  StartNotServing();
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

TEST_F(HealthRpc, AVariantIsForgottenOnceItIsNotServed) {
  HealthBoard& board = server_->api->health();
  board.SetModelReady("variant.vit.1.knn", "1", true);
  EXPECT_EQ(Check("model/variant.vit.1.knn"), "SERVING");
  board.SetModelReady("variant.vit.1.knn", "1", false);
  EXPECT_EQ(Check("model/variant.vit.1.knn"), std::to_string(grpc::NOT_FOUND));
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
  for (int i = 0; i < limits::kMaxHealthWatches + 100; ++i) {  // else there are too many
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

// Docs/faults.md, row 37.
TEST_F(HealthRpc, AQuestionIsAsLongAsANameMayBe) {
  // A field that holds `size` bytes: the service's name.
  const auto question = [](size_t size) {
    HealthCheckRequest request;
    request.set_service(std::string(size, 'x'));
    return request.SerializeAsString();
  };
  const auto code = [this](const std::string& method, const std::string& message) {
    return CallRaw("/grpc.health.v1.Health/" + method, message).error_code();
  };
  for (const char* method : {"Check", "Watch", "List"}) {
    EXPECT_EQ(code(method, question(limits::kMaxControlMessageBytes)), grpc::RESOURCE_EXHAUSTED)
        << method;
    EXPECT_EQ(code(method, "\xFF\xFF\xFF"), grpc::INVALID_ARGUMENT) << method;
  }
  EXPECT_EQ(code("Check", question(limits::kMaxControlMessageBytes - 10)), grpc::NOT_FOUND);
  EXPECT_EQ(Check("model/vit"), "SERVING");
}

TEST_F(HealthRpc, WatchesOfLongNamesHoldNoMemory) {
  constexpr int kCalls = 16;
  constexpr size_t kNameBytes = 8 << 20;
  HealthCheckRequest request;
  request.set_service(std::string(kNameBytes, 'x'));
  const int64_t before = ResidentBytesInUse();
  grpc::ClientContext contexts[kCalls];
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> watches[kCalls];
  HealthCheckResponse response;
  bool taken[kCalls];
  for (int i = 0; i < kCalls; ++i) {
    watches[i] = health_->Watch(&contexts[i], request);
    taken[i] = watches[i]->Read(&response);
  }
  // The caller is in this process too, with a copy or two of the one request.
  if (kFreedMemoryIsGivenBack) {
    EXPECT_LT(ResidentBytesInUse() - before, int64_t{kCalls * kNameBytes / 2});
  }
  for (int i = 0; i < kCalls; ++i) {
    if (taken[i]) contexts[i].TryCancel();
    EXPECT_EQ(watches[i]->Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
  }
}

TEST_F(HealthRpc, SoManyMayWatchAtATime) {
  const auto watch = [this](grpc::ClientContext& context) {
    return health_->Watch(&context, HealthCheckRequest());
  };
  HealthCheckResponse response;
  std::deque<grpc::ClientContext> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<HealthCheckResponse>>> watches;
  // A connection takes fewer streams than there may be watches.
  for (int i = 0; i < limits::kMaxHealthWatches; ++i) {
    if (i % 500 == 0) health_ = grpc::health::v1::Health::NewStub(NewChannel());
    watches.push_back(watch(contexts.emplace_back()));
    ASSERT_TRUE(watches.back()->Read(&response)) << i;
  }
  grpc::ClientContext one_more;
  auto refused = watch(one_more);
  EXPECT_FALSE(refused->Read(&response));
  EXPECT_EQ(refused->Finish().error_code(), grpc::UNAVAILABLE);
  contexts.back().TryCancel();
  watches.back()->Finish();
  watches.pop_back();
  contexts.pop_back();
  EXPECT_TRUE(Eventually([&] {
    grpc::ClientContext context;
    auto again = watch(context);
    const bool taken = again->Read(&response);
    context.TryCancel();
    again->Finish();
    return taken;
  }));
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (auto& one : watches) one->Finish();
}

TEST_F(HealthRpc, ListNamesThemAll) {
  HealthListResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(health_->List(&context, {}, &response).ok());
  std::vector<std::string> names;
  for (const auto& [name, status] : response.statuses()) names.push_back(name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre(
                         "", "inference.GRPCInferenceService", "fovea.v1.VisionService",
                         "fovea.v1.ComparisonService", "fovea.v1.ExperimentService", "model/vit",
                         "model/vit/1"));
}

}  // namespace
}  // namespace fovea
