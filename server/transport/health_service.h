// gRPC's health checking protocol: for the server, its services and every model.
//
// The library brings a service of its own, but that one reads SERVING from the moment the port is
// open until somebody says otherwise, cannot end the streams of Watch when the server stops, and
// keeps a name of any length for as long as it is watched.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "server/core/memory_budget.h"
#include "server/core/mutex.h"

namespace fovea {

class HealthWatch;

// Which services serve. "" stands for the server. Thread-safe.
//
// A name is a service's or "model/<name>" (any version of it is ready) or "model/<name>/<version>".
// None serves before SetServing(true) and after SetServing(false), whatever its models do. A model
// that was ready once stays known and reads NOT_SERVING when it is unloaded.
class HealthBoard {
 public:
  using Status = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // `services`: names that are known from the start.
  explicit HealthBoard(std::set<std::string> services) : services_(std::move(services)) {}

  void SetServing(bool serving);
  void SetModelReady(std::string_view model, std::string_view version, bool ready);
  // Ends the streams of Watch, now and later.
  void Close();

  // SERVICE_UNKNOWN: nobody has told of it.
  Status Get(const std::string& service) const;
  std::map<std::string, Status> List() const;

  // A watch is refreshed at once and whenever its status may have changed, until it is removed.
  // False, and nothing is added, where limits::kMaxHealthWatches are there.
  bool Add(std::shared_ptr<HealthWatch> watch);
  void Remove(HealthWatch* watch);

 private:
  Status GetLocked(const std::string& service) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::shared_ptr<HealthWatch>> Watches() const;

  mutable Mutex mutex_;  // never held while a watch is called
  const std::set<std::string> services_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::map<std::string, bool>> models_ ABSL_GUARDED_BY(mutex_);  // by version
  std::map<HealthWatch*, std::shared_ptr<HealthWatch>> watches_ ABSL_GUARDED_BY(mutex_);
};

namespace health_service_internal {

using Generated = grpc::health::v1::Health;
using RawService = Generated::WithRawCallbackMethod_Check<Generated::WithRawCallbackMethod_List<
    Generated::WithRawCallbackMethod_Watch<Generated::Service>>>;

}  // namespace health_service_internal

// Raw, as OipService is: a question is bounded before it is parsed
// (limits::kMaxControlMessageBytes).
class HealthService final : public health_service_internal::RawService {
 public:
  HealthService(std::shared_ptr<HealthBoard> board, MemoryBudget& memory)
      : board_(std::move(board)), memory_(memory) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* call,
                                  const grpc::ByteBuffer* message,
                                  grpc::ByteBuffer* answer) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* call, const grpc::ByteBuffer* message,
                                 grpc::ByteBuffer* answer) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* call,
                                                    const grpc::ByteBuffer* message) override;

 private:
  const std::shared_ptr<HealthBoard> board_;
  MemoryBudget& memory_;
};

}  // namespace fovea
