#include "server/transport/grpc/health_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/core/server_stopping.h"
#include "server/transport/grpc/control_message.h"
#include "server/transport/grpc/grpc_caller.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/refused_stream.h"
#include "server/transport/grpc/unary_answer.h"

namespace fovea {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::health::v1::HealthListRequest;
using grpc::health::v1::HealthListResponse;

HealthCheckResponse::ServingStatus ToMessage(ServingStatus status) {
  switch (status) {
    case ServingStatus::kServing:
      return HealthCheckResponse::SERVING;
    case ServingStatus::kNotServing:
      return HealthCheckResponse::NOT_SERVING;
    case ServingStatus::kUnknown:
      break;
  }
  return HealthCheckResponse::SERVICE_UNKNOWN;
}

// One Watch. Writes one status at a time; what changes in between is told by the next write, so
// that a slow reader holds up nobody and sees the latest.
class HealthWatch final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public HealthWatcher {
 public:
  HealthWatch(HealthBoard& board, std::string service, grpc::CallbackServerContext* call,
              StreamPlaces::Place place)
      : board_(board), service_(std::move(service)), call_(call), place_(std::move(place)) {}

  void Refresh() override {
    MutexLock lock(mutex_);
    latest_ = board_.Get(service_);
    Advance();
  }

  void Close() override {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      if (writing_ || std::exchange(finished_, true)) return;
    }
    Finish(EndCall(ServerStopping(), *call_));
  }

 private:
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (closing_ || writing_ || latest_ == told_) return;
    told_ = latest_;
    HealthCheckResponse response;
    response.set_status(ToMessage(*told_));
    response_ = WriteControlMessage(response);
    writing_ = true;
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    {
      MutexLock lock(mutex_);
      writing_ = false;
      closing_ |= !ok;
      Advance();
      if (!closing_) return;
    }
    Close();
  }
  void OnCancel() override { Close(); }
  void OnDone() override {
    place_.reset();
    board_.Remove(this);
  }

  HealthBoard& board_;
  const std::string service_;
  grpc::CallbackServerContext* const call_;
  StreamPlaces::Place place_;
  Mutex mutex_;                // taken before the board's
  grpc::ByteBuffer response_;  // the write's, while writing_
  std::optional<ServingStatus> latest_ ABSL_GUARDED_BY(mutex_);
  std::optional<ServingStatus> told_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // no more writes: Finish when none is under way
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* call,
                                               const grpc::ByteBuffer* message,
                                               grpc::ByteBuffer* answer) {
  return AnswerAtOnce<HealthCheckRequest, HealthCheckResponse>(
      context_, Method("Check"), call, message, answer,
      [this](const auto& request, auto* response) {
        const ServingStatus status = board_.Get(request.service());
        if (status == ServingStatus::kUnknown) {
          return NotFound("health.unknown_service", "no service " + InQuotes(request.service()));
        }
        response->set_status(ToMessage(status));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* HealthService::List(grpc::CallbackServerContext* call,
                                              const grpc::ByteBuffer* message,
                                              grpc::ByteBuffer* answer) {
  return AnswerAtOnce<HealthListRequest, HealthListResponse>(
      context_, Method("List"), call, message, answer, [this, call](const auto&, auto* response) {
        const bool models = CallerOf(context_, Method("ServerMetadata"), *call).refused.ok();
        for (const auto& [name, status] : models ? board_.List() : board_.ListServices()) {
          (*response->mutable_statuses())[name].set_status(ToMessage(status));
        }
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(grpc::CallbackServerContext* call,
                                                                 const grpc::ByteBuffer* message) {
  using Refused = RefusedStream<grpc::ServerWriteReactor<grpc::ByteBuffer>>;
  HealthCheckRequest request;
  const absl::Status readable = ReadControlMessage(*message, &request);
  ReleaseMessage(message);
  if (!readable.ok()) return new Refused(EndCall(readable, *call));
  StreamPlaces::Place place = watches_.Take(call->peer());
  if (place == nullptr) {
    return new Refused(EndCall(
        Unavailable("health.busy", "too many watches on this connection or on the server"), *call));
  }
  auto watch = std::make_shared<HealthWatch>(board_, request.service(), call, std::move(place));
  HealthWatch* const reactor = watch.get();
  board_.Add(std::move(watch));
  return reactor;
}

}  // namespace fovea
