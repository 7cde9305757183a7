#include "server/transport/infer_exchange.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <utility>

#include "server/core/limits.h"
#include "server/core/status.h"
#include "server/transport/grpc_message.h"
#include "server/transport/vision_codec.h"

namespace fovea {
namespace {

// The call's deadline in our own time. gRPC counts it from the client's timeout on a steady clock;
// it is read once, so that a jump of the wall clock moves nothing (docs/faults.md, row 46).
Nanos SteadyDeadline(const grpc::CallbackServerContext& call, Nanos now) {
  const gpr_timespec deadline = call.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return kNever;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  if (left.tv_sec >= limits::kMaxTimeoutSeconds) return now + limits::kMaxTimeoutSeconds * kSecond;
  return now + std::max<int64_t>(left.tv_sec, 0) * kSecond + (left.tv_sec < 0 ? 0 : left.tv_nsec);
}

absl::Status Read(TransportContext& context, const InferMethod& method,
                  const grpc::ByteBuffer& message, InferenceRequest* request) {
  FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes bytes,
                         ReceiveMessage(message, context.max_message_bytes));
  return method.read(bytes, request);
}

}  // namespace

const InferMethod kModelInfer{"ModelInfer", ReadModelInferRequest, WriteModelInferResponse};
const InferMethod kModelStreamInfer{"ModelStreamInfer", ReadModelInferRequest,
                                    WriteModelInferResponse};
const InferMethod kClassify{"Classify", ReadClassifyRequest, WriteClassifyResponse};

std::unique_ptr<InferenceRequest> NewRequest(const grpc::CallbackServerContext& call,
                                             const Clock& clock) {
  auto request = std::make_unique<InferenceRequest>();
  const Nanos now = clock.Now();
  request->stages = StageTimes(now);
  request->deadline = SteadyDeadline(call, now);
  return request;
}

void Exchange(TransportContext& context, const InferMethod& method, const RequestGate::Pass& pass,
              const grpc::ByteBuffer& message, std::unique_ptr<InferenceRequest> request,
              std::function<void(InferAnswer)> done) {
  const absl::Status readable =
      pass ? Read(context, method, message, request.get())
           : Unavailable("server.draining", "the server is stopping: try another one");
  request->stages.EndStage(Stage::kReceive, context.clock.Now());

  std::shared_ptr<const ModelView> model;
  if (context.observer != nullptr && readable.ok()) {
    if (auto found = context.catalog.Find(request->model_name, request->model_version);
        found.ok()) {
      model = *std::move(found);
    }
  }
  auto answer = [&context, &method, id = request->id, asked = request->model_name,
                 asked_version = request->model_version, deadline = request->deadline,
                 received = static_cast<int64_t>(message.Length()), model = std::move(model),
                 done = std::move(done)](absl::StatusOr<InferenceResponse> response,
                                         StageTimes stages) {
    InferAnswer answer{.status = response.status(), .id = id};
    if (absl::IsCancelled(answer.status) && context.gate.given_up()) {
      answer.status =
          Unavailable("server.drain_timeout",
                      "the server stopped before the request was done: try another one");
    }
    if (response.ok()) {
      answer.message = method.write(*response, context.clock);
      stages = response->receipt.stages;
    }
    if (context.observer != nullptr) {
      absl::StatusCode code = answer.status.code();
      // gRPC cancels a call whose deadline has passed: that is not the caller's doing.
      if (code == absl::StatusCode::kCancelled && context.clock.Now() >= deadline) {
        code = absl::StatusCode::kDeadlineExceeded;
      }
      const std::string reason = ReasonOf(answer.status);
      context.observer->OnRequestDone({.protocol = "grpc",
                                       .method = method.name,
                                       .model = model,
                                       .code = code,
                                       .stages = stages,
                                       .id = id,
                                       .requested_model = asked,
                                       .requested_version = asked_version,
                                       .reason = reason,
                                       .received_bytes = received,
                                       .sent_bytes = static_cast<int64_t>(answer.message.size())});
    }
    done(std::move(answer));
  };
  if (readable.ok()) {
    context.inference.Infer(std::move(request), std::move(answer));
  } else {
    answer(readable, request->stages);
  }
}

}  // namespace fovea
