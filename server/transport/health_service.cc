#include "server/transport/health_service.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/core/server_stopping.h"
#include "server/transport/control_message.h"
#include "server/transport/grpc_status.h"
#include "server/transport/refused_stream.h"
#include "server/transport/unary_answer.h"

namespace fovea {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using grpc::health::v1::HealthListRequest;
using grpc::health::v1::HealthListResponse;

constexpr std::string_view kModelPrefix = "model/";

}  // namespace

// One Watch. Writes one status at a time; what changes in between is told by the next write, so
// that a slow reader holds up nobody and sees the latest.
class HealthWatch final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  HealthWatch(HealthBoard& board, std::string service, grpc::CallbackServerContext* call)
      : board_(board), service_(std::move(service)), call_(call) {}

  // Tells the status that the board has now. Whoever changes it calls this afterwards, so that the
  // last call, however they interleave, sees the last change.
  void Refresh() {
    MutexLock lock(mutex_);
    latest_ = board_.Get(service_);
    Advance();
  }

  void Close() {
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
    response.set_status(*told_);
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
  void OnDone() override { board_.Remove(this); }

  HealthBoard& board_;
  const std::string service_;
  grpc::CallbackServerContext* const call_;
  Mutex mutex_;                // taken before the board's
  grpc::ByteBuffer response_;  // the write's, while writing_
  std::optional<HealthBoard::Status> latest_ ABSL_GUARDED_BY(mutex_);
  std::optional<HealthBoard::Status> told_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // no more writes: Finish when none is under way
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

void HealthBoard::SetServing(bool serving) {
  {
    MutexLock lock(mutex_);
    serving_ = serving;
  }
  for (const auto& watch : Watches()) watch->Refresh();
}

void HealthBoard::SetModelReady(std::string_view model, std::string_view version, bool ready) {
  {
    MutexLock lock(mutex_);
    models_[std::string(model)][std::string(version)] = ready;
  }
  for (const auto& watch : Watches()) watch->Refresh();
}

HealthBoard::Status HealthBoard::GetLocked(const std::string& service) const {
  const auto status = [serving = serving_](bool ready) {
    return ready && serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
  };
  if (services_.contains(service)) return status(true);
  if (!service.starts_with(kModelPrefix)) return HealthCheckResponse::SERVICE_UNKNOWN;
  const std::string rest = service.substr(kModelPrefix.size());
  const size_t slash = rest.find('/');
  const auto model = models_.find(rest.substr(0, slash));
  if (model == models_.end()) return HealthCheckResponse::SERVICE_UNKNOWN;
  if (slash == std::string::npos) {
    bool any = false;
    for (const auto& [version, ready] : model->second) any |= ready;
    return status(any);
  }
  const auto version = model->second.find(rest.substr(slash + 1));
  if (version == model->second.end()) return HealthCheckResponse::SERVICE_UNKNOWN;
  return status(version->second);
}

HealthBoard::Status HealthBoard::Get(const std::string& service) const {
  MutexLock lock(mutex_);
  return GetLocked(service);
}

std::map<std::string, HealthBoard::Status> HealthBoard::List() const {
  MutexLock lock(mutex_);
  std::set<std::string> names = services_;
  for (const auto& [model, versions] : models_) {
    const std::string name = std::string(kModelPrefix) + model;
    names.insert(name);
    for (const auto& [version, ready] : versions) names.insert(name + "/" + version);
  }
  std::map<std::string, Status> statuses;
  for (const std::string& name : names) statuses[name] = GetLocked(name);
  return statuses;
}

std::vector<std::shared_ptr<HealthWatch>> HealthBoard::Watches() const {
  std::vector<std::shared_ptr<HealthWatch>> watches;
  MutexLock lock(mutex_);
  for (const auto& [key, watch] : watches_) watches.push_back(watch);
  return watches;
}

bool HealthBoard::Add(std::shared_ptr<HealthWatch> watch) {
  bool closed;
  {
    MutexLock lock(mutex_);
    if (watches_.size() >= static_cast<size_t>(limits::kMaxHealthWatches)) return false;
    watches_.emplace(watch.get(), watch);
    closed = closed_;
  }
  watch->Refresh();
  if (closed) watch->Close();
  return true;
}

void HealthBoard::Remove(HealthWatch* watch) {
  std::shared_ptr<HealthWatch> last;  // dropped outside the mutex
  MutexLock lock(mutex_);
  const auto found = watches_.find(watch);
  last = std::move(found->second);
  watches_.erase(found);
}

void HealthBoard::Close() {
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  for (const auto& watch : Watches()) watch->Close();
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* call,
                                               const grpc::ByteBuffer* message,
                                               grpc::ByteBuffer* answer) {
  return AnswerAtOnce<HealthCheckRequest, HealthCheckResponse>(
      memory_, call, message, answer, [this](const auto& request, auto* response) {
        const HealthBoard::Status status = board_->Get(request.service());
        if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
          return NotFound("health.unknown_service", "no service " + InQuotes(request.service()));
        }
        response->set_status(status);
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* HealthService::List(grpc::CallbackServerContext* call,
                                              const grpc::ByteBuffer* message,
                                              grpc::ByteBuffer* answer) {
  return AnswerAtOnce<HealthListRequest, HealthListResponse>(
      memory_, call, message, answer, [this](const auto&, auto* response) {
        for (const auto& [name, status] : board_->List()) {
          (*response->mutable_statuses())[name].set_status(status);
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
  auto watch = std::make_shared<HealthWatch>(*board_, request.service(), call);
  if (!board_->Add(watch)) {
    return new Refused(EndCall(Unavailable("health.busy", "too many callers watch"), *call));
  }
  return watch.get();
}

}  // namespace fovea
