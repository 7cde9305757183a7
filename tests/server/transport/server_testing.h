// A server on loopback with nothing behind it but what a test says.
#pragma once

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "proto/fovea/v1/vision.grpc.pb.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/inference/inference.grpc.pb.h"
#include "server/core/mutex.h"
#include "server/transport/grpc_server.h"

namespace fovea {

// Echoes each request's inputs as outputs, at once; or holds the requests until the test has them
// answered.
class FakeInference final : public InferenceService {
 public:
  struct Held {
    std::unique_ptr<InferenceRequest> request;
    InferenceCallback done;

    void Answer();  // echoes
    void Fail(const absl::Status& status);
  };

  void Infer(std::unique_ptr<InferenceRequest> request, InferenceCallback done) override;

  // From now on requests are kept until they are taken.
  void Hold();
  // Waits for a held request and takes it.
  Held Take();
  size_t held() const;
  // From now on requests end with `status`, until it is OK.
  void FailWith(absl::Status status);

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool hold_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::deque<Held> held_ ABSL_GUARDED_BY(mutex_);
};

class FakeCatalog final : public ModelCatalog, public StatisticsSource {
 public:
  FakeCatalog();  // has version 1 of "vit"

  absl::StatusOr<std::shared_ptr<const ModelView>> Find(std::string_view name,
                                                        std::string_view version) const override;
  std::vector<IndexEntry> Index() const override;
  absl::Status Load(std::string_view name, std::string_view config_override) override;
  absl::Status Unload(std::string_view name) override;
  void OnReadinessChange(ReadinessListener listener) override;
  absl::StatusOr<std::vector<ModelStatistics>> Statistics(std::string_view name,
                                                          std::string_view version) const override;

  std::string last_config() const;
  // Load blocks until Unblock.
  void BlockLoads();
  void UnblockLoads();
  int loads_begun() const;
  // Index blocks until UnblockIndex, as on a disk that hangs.
  void BlockIndex();
  void UnblockIndex();
  int indexes_begun() const;

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  const std::shared_ptr<const ModelView> model_;
  bool loaded_ ABSL_GUARDED_BY(mutex_) = true;
  bool blocked_ ABSL_GUARDED_BY(mutex_) = false;
  bool index_blocked_ ABSL_GUARDED_BY(mutex_) = false;
  int loads_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable int indexes_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string config_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReadinessListener> listeners_ ABSL_GUARDED_BY(mutex_);
};

class RecordingObserver final : public TransportObserver {
 public:
  void OnRequestDone(const AnsweredRequest& request) override;
  std::vector<AnsweredRequest> requests() const;

 private:
  mutable Mutex mutex_;
  std::vector<AnsweredRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

class GrpcServerTest : public ::testing::Test {
 protected:
  GrpcServerTest() { Start({.port = 0, .server_version = "1.2.3"}); }

  // Replaces the server and the stubs' channel.
  void Start(const GrpcServerOptions& options);
  // A channel of its own connection.
  std::shared_ptr<grpc::Channel> NewChannel() const;

  // Any method, any bytes.
  grpc::Status CallRaw(const std::string& method, const std::string& message,
                       std::string* answer = nullptr, grpc::ClientContext* context = nullptr);

  // Waits, a minute at most.
  template <typename Condition>
  static bool Eventually(Condition condition) {
    for (int i = 0; i < 12'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  FakeInference inference_;
  FakeCatalog catalog_;
  RecordingObserver observer_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
  std::unique_ptr<v1::VisionService::Stub> vision_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

// The reason token of a call that has ended; empty where it was told none.
std::string ReasonTold(const grpc::ClientContext& context);

int64_t ResidentBytes();  // of this process: the server and its callers

// A ModelInfer of "vit" with one small FP32 tensor.
inference::ModelInferRequest SmallRequest(const std::string& id = "");

}  // namespace fovea
