#include "server/api/inference_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/api/server_api.h"
#include "server/core/server_stopping.h"

namespace fovea {
namespace {

std::unique_ptr<InferenceRequest> NewRequest(ServerApi& api, Nanos arrived, Nanos deadline,
                                             RequestMemory& memory) {
  auto request = std::make_unique<InferenceRequest>();
  request->stages = StageTimes(arrived);
  request->deadline = deadline;
  request->memory = &memory;
  request->shared_memory = api.shared_memory();
  return request;
}

// A request's own timeout by the queue policy of its level. Where the level rejects what has timed
// out, nobody waits for a later answer: it is a deadline, which batches are made by. Where the
// level delays it, the queue alone heeds it.
void ApplyTimeout(const ModelView& model, InferenceRequest* request) {
  const QueuePolicy& policy = model.PolicyOf(model.LevelOf(request->priority));
  if (policy.allow_timeout_override && policy.timeout_action == TimeoutAction::kReject) {
    request->LimitTime(request->timeout_us);
  }
}

}  // namespace

InferenceCall::InferenceCall(ServerApi& api, Caller caller, std::string_view method, Nanos arrived,
                             Nanos deadline, RequestOrigin origin)
    : api_(api),
      caller_(std::move(caller)),
      arrived_(arrived),
      method_(method),
      origin_(std::move(origin)),
      memory_(api.memory()),
      request_(NewRequest(api, arrived, deadline, memory_)),
      cancellation_(request_->cancellation),
      pass_(api.gate().TryEnter(cancellation_, arrived)),
      deadline_(deadline) {}

absl::StatusOr<std::shared_ptr<const ServingModel>> InferenceCall::FindModel(
    const InferenceRequest& head) {
  LiveExperiments* const experiments = api_.experiments();
  if (experiments != nullptr && head.model_version.empty()) {
    const std::string& key = origin_.experiment_key;
    routed_ = experiments->Route(head.model_name, key.empty() ? caller_.principal : key);
    if (routed_ != nullptr) return routed_->model();
  }
  return api_.catalog().Acquire(head.model_name, head.model_version);
}

absl::Status InferenceCall::ReadRequest(InferenceRequest& request, Read read) {
  if (!pass_) return ServerStopping();
  FOVEA_RETURN_IF_ERROR(caller_.Admit(arrived_));
  if (origin_.experiment_key.size() > limits::kMaxExperimentKeyBytes) {
    return InvalidArgument("experiment.key",
                           absl::StrCat("fovea-experiment-key has more than ",
                                        limits::kMaxExperimentKeyBytes, " bytes"));
  }
  FOVEA_RETURN_IF_ERROR(OrOutOfMemory([&]() -> absl::Status {
    FOVEA_RETURN_IF_ERROR(request.TakeMemory(limits::kRequestRecordBytes));
    return read(request, [&](const InferenceRequest& head) -> absl::Status {
      FOVEA_ASSIGN_OR_RETURN(model_, FindModel(head));
      return absl::OkStatus();
    });
  }));
  FOVEA_CHECK(model_ != nullptr);  // `read` has asked for it
  return absl::OkStatus();
}

void InferenceCall::Run(int64_t received_bytes, Read read, Write write, Done done) {
  received_bytes_ = received_bytes;
  std::unique_ptr<InferenceRequest> request = std::move(request_);
  if (api_.observer() != nullptr) api_.observer()->OnRequestArrived();
  const absl::Status complete = ReadRequest(*request, read);
  request->stages.EndStage(Stage::kReceive, api_.clock().Now());
  if (complete.ok()) ApplyTimeout(*model_->view(), request.get());
  id_ = request->id;
  asked_model_ = request->model_name;
  asked_version_ = request->model_version;
  deadline_ = request->deadline;  // it may have named an earlier one
  if (!complete.ok()) {
    Answer(complete, request->stages, write, done);
    return;
  }
  if (routed_ != nullptr) {
    routed_->OnRead(*request, received_bytes + memory_.bytes(), api_.memory());
  }
  ServingModel::Infer(model_, std::move(request),
                      [this, write = std::move(write), done = std::move(done)](
                          absl::StatusOr<InferenceResponse> response, StageTimes stages) {
                        Answer(std::move(response), stages, write, done);
                      });
}

void InferenceCall::Answer(absl::StatusOr<InferenceResponse> response, StageTimes stages,
                           const Write& write, const Done& done) {
  absl::Status status = response.status();
  int64_t sent_bytes = 0;
  int batch_size = 0;
  std::optional<DeviceTimes> device_times;
  if (status.ok() && api_.clock().Now() >= deadline_) {
    status =
        DeadlineExceeded("request.deadline_passed", "the deadline passed while the request ran");
  }
  if (status.ok()) {
    response->receipt.principal = caller_.principal;
    batch_size = response->receipt.batch_size;
    device_times = response->receipt.device_times;
    if (routed_ != nullptr) {
      response->receipt.experiment = routed_->experiment();
      response->receipt.experiment_arm = routed_->arm();
      routed_->OnResults(*response);
    }
    const absl::StatusOr<int64_t> written = OrOutOfMemory([&] { return write(*response); });
    status = written.status();
    if (status.ok()) {
      sent_bytes = *written;
      stages = response->receipt.stages;
    }
  }
  if (absl::IsCancelled(status) && api_.gate().given_up()) {
    status = Unavailable("server.drain_timeout",
                         "the server stopped before the request was done: try another one");
  }
  // Nothing depends on it before: a request that is not recorded costs a branch here. Who may not
  // call makes no spans, and takes no traces from those who may.
  static const std::string& no_model = *new std::string;
  trace_ =
      caller_.refused.ok()
          ? api_.tracer().Start(origin_.trace, model_ == nullptr ? no_model : model_->view()->name)
          : RequestTrace{.context = origin_.trace.context};
  absl::StatusCode code = status.code();
  // A transport cancels a call whose deadline has passed: that is not the caller's doing.
  if (code == absl::StatusCode::kCancelled && api_.clock().Now() >= deadline_) {
    code = absl::StatusCode::kDeadlineExceeded;
  }
  // The caller may end this object, and the server its api, as soon as `done` is called: what holds
  // memory of the api beyond that keeps it.
  const RequestGate::Rest rest = routed_ == nullptr ? RequestGate::Rest() : api_.gate().Stay();
  const std::unique_ptr<RoutedRequest> routed = std::move(routed_);
  if (routed != nullptr) {
    const Nanos allowed = deadline_ == kNever ? kNever : deadline_ - arrived_;
    routed->OnAnswered(code, stages, allowed);
  }
  if (RequestObserver* const observer = api_.observer(); observer != nullptr) {
    const std::string reason = ReasonOf(status);
    observer->OnRequestDone({.protocol = caller_.protocol,
                             .method = method_,
                             .principal = caller_.principal,
                             .key = caller_.key,
                             .model = model_.get(),
                             .code = code,
                             .stages = stages,
                             .ended = api_.clock().Now(),
                             .batch_size = batch_size,
                             .device_times = device_times,
                             .trace = trace_,
                             .route = origin_.route,
                             .tls = origin_.tls,
                             .id = id_,
                             .requested_model = asked_model_,
                             .requested_version = asked_version_,
                             .reason = reason,
                             .received_bytes = received_bytes_,
                             .sent_bytes = sent_bytes});
  }
  model_.reset();  // a caller who reads slowly does not keep it loaded
  memory_.KeepOnly(limits::kRequestRecordBytes + sent_bytes);
  // The caller may end this object in `done`.
  const std::string id = id_;
  done(status, id);
  if (routed != nullptr) routed->OnLeft();
}

void InferenceCall::Release() {
  pass_ = RequestGate::Pass();
  caller_.Leave();
  memory_.Release();
}

}  // namespace fovea
