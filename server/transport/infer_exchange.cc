#include "server/transport/infer_exchange.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/server_stopping.h"
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
                  const grpc::ByteBuffer& message, InferenceRequest* request,
                  std::shared_ptr<const ModelView>* model) {
  return OrOutOfMemory([&]() -> absl::Status {
    FOVEA_RETURN_IF_ERROR(request->TakeMemory(limits::kRequestRecordBytes));
    FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes bytes,
                           ReceiveMessage(message, context.max_message_bytes, request->memory));
    return method.read(
        bytes,
        [&](const InferenceRequest& head) -> absl::Status {
          FOVEA_ASSIGN_OR_RETURN(*model, context.catalog.Find(head.model_name, head.model_version));
          return absl::OkStatus();
        },
        request);
  });
}

// The encoded answer, or why there is none.
absl::StatusOr<EncodedMessage> Write(const InferMethod& method,
                                     absl::StatusOr<InferenceResponse>& response, Nanos deadline,
                                     const Clock& clock) {
  FOVEA_RETURN_IF_ERROR(response.status());
  if (clock.Now() >= deadline) {
    return DeadlineExceeded("request.deadline_passed", "the deadline passed while the request ran");
  }
  return OrOutOfMemory(
      [&]() -> absl::StatusOr<EncodedMessage> { return method.write(*response, clock); });
}

}  // namespace

const InferMethod kModelInfer{"ModelInfer", ReadModelInferRequest, WriteModelInferResponse};
const InferMethod kModelStreamInfer{"ModelStreamInfer", ReadModelInferRequest,
                                    WriteModelInferResponse};
const InferMethod kClassify{"Classify", ReadClassifyRequest, WriteClassifyResponse};

std::unique_ptr<InferenceRequest> NewRequest(const grpc::CallbackServerContext& call,
                                             const Clock& clock, RequestMemory& memory) {
  auto request = std::make_unique<InferenceRequest>();
  request->memory = &memory;
  const Nanos now = clock.Now();
  request->stages = StageTimes(now);
  request->deadline = SteadyDeadline(call, now);
  return request;
}

void Exchange(TransportContext& context, const InferMethod& method, const RequestGate::Pass& pass,
              const grpc::ByteBuffer& message, std::unique_ptr<InferenceRequest> request,
              std::function<void(InferAnswer)> done) {
  std::shared_ptr<const ModelView> model;
  const absl::Status readable =
      pass ? Read(context, method, message, request.get(), &model) : ServerStopping();
  request->stages.EndStage(Stage::kReceive, context.clock.Now());

  auto answer = [&context, &method, id = request->id, asked = request->model_name,
                 asked_version = request->model_version, deadline = request->deadline,
                 received = static_cast<int64_t>(message.Length()), model = std::move(model),
                 memory = request->memory, done = std::move(done)](
                    absl::StatusOr<InferenceResponse> response, StageTimes stages) {
    absl::StatusOr<EncodedMessage> message = Write(method, response, deadline, context.clock);
    InferAnswer answer{.status = message.status(), .id = id};
    if (absl::IsCancelled(answer.status) && context.gate.given_up()) {
      answer.status =
          Unavailable("server.drain_timeout",
                      "the server stopped before the request was done: try another one");
    }
    if (message.ok()) {
      answer.message = *std::move(message);
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
    memory->KeepOnly(limits::kRequestRecordBytes + static_cast<int64_t>(answer.message.size()));
    done(std::move(answer));
  };
  if (readable.ok()) {
    context.inference.Infer(std::move(request), std::move(answer));
  } else {
    answer(readable, request->stages);
  }
}

}  // namespace fovea
