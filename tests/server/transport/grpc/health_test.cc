// Health checking.
#include <gmock/gmock.h>

#include <deque>
#include <thread>

#include "base/limits.h"
#include "server/transport/grpc/stream_places.h"
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
  const std::string not_found = std::to_string(grpc::NOT_FOUND);
  for (const char* service : {"model/", "model/swin", "model/vit/2", "model/vit/", "nobody"}) {
    EXPECT_EQ(Check(service), not_found) << service;
  }
}

TEST_F(HealthRpc, WhatIsGoneIsForgotten) {
  HealthBoard& board = server_->api->health();
  const std::string not_found = std::to_string(grpc::NOT_FOUND);
  board.SetModel("variant.vit.1.knn", "1", Readiness::kReady);
  EXPECT_EQ(Check("model/variant.vit.1.knn"), "SERVING");
  board.SetModel("variant.vit.1.knn", "1", Readiness::kGone);
  EXPECT_EQ(Check("model/variant.vit.1.knn"), not_found);

  board.SetModel("vit", "2", Readiness::kReady);
  board.SetModel("vit", "1", Readiness::kOutOfService);
  EXPECT_EQ(Check("model/vit/1"), "NOT_SERVING");
  board.SetModel("vit", "1", Readiness::kGone);
  EXPECT_EQ(Check("model/vit/1"), not_found);
  EXPECT_EQ(Check("model/vit/2"), "SERVING");
  // Of a model that is not loaded, the last version stays.
  board.SetModel("vit", "2", Readiness::kGone);
  EXPECT_EQ(Check("model/vit"), "NOT_SERVING");
  EXPECT_EQ(Check("model/vit/2"), "NOT_SERVING");
  for (int version = 3; version < 40; ++version) {
    board.SetModel("vit", std::to_string(version), Readiness::kReady);
    board.SetModel("vit", std::to_string(version), Readiness::kGone);
  }
  EXPECT_EQ(Check("model/vit/38"), not_found);
  EXPECT_EQ(Check("model/vit/39"), "NOT_SERVING");
}

// docs/faults.md, row 101.
TEST_F(HealthRpc, NothingServesOnceTheLastModelIsAway) {
  HealthBoard& board = server_->api->health();
  board.SetModel("vit", "1", Readiness::kOutOfService);
  EXPECT_EQ(Check(""), "NOT_SERVING");
  EXPECT_EQ(Check("fovea.v1.VisionService"), "NOT_SERVING");
  board.SetModel("vit", "1", Readiness::kReady);
  EXPECT_EQ(Check(""), "SERVING");
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
  for (int i = 0; i < limits::kMaxHealthWatchesPerConnection + 10;
       ++i) {  // else there are too many
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

// docs/faults.md, row 99: a connection takes no more than its own.
TEST_F(HealthRpc, SoManyMayWatchOverAConnection) {
  const auto watch = [this](grpc::ClientContext& context) {
    return health_->Watch(&context, HealthCheckRequest());
  };
  HealthCheckResponse response;
  std::deque<grpc::ClientContext> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<HealthCheckResponse>>> watches;
  for (int i = 0; i < limits::kMaxHealthWatchesPerConnection; ++i) {
    watches.push_back(watch(contexts.emplace_back()));
    ASSERT_TRUE(watches.back()->Read(&response)) << i;
  }
  grpc::ClientContext one_more, of_another;
  auto refused = watch(one_more);
  EXPECT_FALSE(refused->Read(&response));
  EXPECT_EQ(refused->Finish().error_code(), grpc::UNAVAILABLE);
  auto other = grpc::health::v1::Health::NewStub(NewChannel())->Watch(&of_another, {});
  EXPECT_TRUE(other->Read(&response));
  of_another.TryCancel();
  other->Finish();
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

TEST(StreamPlacesTest, AreBoundedForAllAndForEachConnection) {
  StreamPlaces places(/*most=*/3, /*most_per_connection=*/2);
  std::vector<StreamPlaces::Place> taken = {places.Take("a"), places.Take("a")};
  EXPECT_EQ(places.Take("a"), nullptr);
  taken.push_back(places.Take("b"));
  EXPECT_NE(taken.back(), nullptr);
  EXPECT_EQ(places.Take("c"), nullptr);
  taken[0].reset();
  EXPECT_NE(places.Take("a"), nullptr);  // and is given back at once
  EXPECT_NE(places.Take("c"), nullptr);
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
  // docs/faults.md, row 99: names of models are metadata.
  ApiKey key{.name = "operator"};
  server_->api->authenticator().SetKeys({key});
  HealthListResponse without_key;
  grpc::ClientContext another;
  ASSERT_TRUE(health_->List(&another, {}, &without_key).ok());
  EXPECT_EQ(without_key.statuses_size(), 5);
  EXPECT_FALSE(without_key.statuses().contains("model/vit"));
}

}  // namespace
}  // namespace fovea
