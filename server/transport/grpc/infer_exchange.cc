#include "server/transport/grpc/infer_exchange.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "server/transport/grpc/grpc_caller.h"
#include "server/transport/grpc/grpc_message.h"
#include "server/transport/grpc/tensor_contents.h"

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

// By which an experiment sends a call's requests to one of its arms; of several the first.
std::string ExperimentKey(const grpc::CallbackServerContext& call) {
  const auto key = call.client_metadata().find("fovea-experiment-key");
  if (key == call.client_metadata().end()) return "";
  return {key->second.data(), key->second.size()};
}

// Maximum bytes of the response's typed contents.
int64_t MostTypedBytes(const InferenceResponse& response) {
  int64_t bytes = 0;
  for (const OutputTensor& output : std::get<TensorResults>(response.results)) {
    if (HasTypedContents(output.type)) bytes += TypedContentsBytes(output);
  }
  return bytes;
}

}  // namespace

InferExchange::InferExchange(GrpcContext& context, ApiMethod method,
                             const grpc::CallbackServerContext& call, TraceParent trace)
    : context_(context), call_([&]() -> InferenceCall {
        const Nanos now = context.api.clock().Now();
        return InferenceCall(context.api, CallerOf(context, method, call), method.name, now,
                             SteadyDeadline(call, now),
                             {.trace = std::move(trace), .experiment_key = ExperimentKey(call)});
      }()) {}

void InferExchange::Run(const grpc::ByteBuffer& message, ReadMessage read, WriteMessage write,
                        std::function<void(InferAnswer)> done) {
  call_.Run(
      static_cast<int64_t>(message.Length()),
      [&](InferenceRequest& request, CheckModel check_model) -> absl::Status {
        // Usually the caller has gone, so it is counted as cancelled.
        if (!message.Valid()) {
          return Cancelled("request.cancelled", "the call ended before its message was complete");
        }
        FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes bytes,
                               ReceiveMessage(message, context_.max_message_bytes, request.memory));
        FOVEA_RETURN_IF_ERROR(read(bytes, check_model, &request));
        const auto* const wanted = std::get_if<WantedTensors>(&request.options);
        typed_contents_ = wanted != nullptr && wanted->typed_contents;
        return shared_outputs_.Find(request);
      },
      [this, write](InferenceResponse& response) -> absl::StatusOr<int64_t> {
        FOVEA_RETURN_IF_ERROR(shared_outputs_.Write(response));
        response.typed_contents = typed_contents_;
        if (typed_contents_) {
          FOVEA_RETURN_IF_ERROR(call_.TakeAnswerMemory(MostTypedBytes(response)));
        }
        FOVEA_ASSIGN_OR_RETURN(message_,
                               write(response, context_.api.clock(), context_.max_answer_bytes));
        return static_cast<int64_t>(message_.size());
      },
      [this, done = std::move(done)](const absl::Status& status, const std::string& id) {
        done({.status = status, .message = std::move(message_), .id = id});
      });
}

}  // namespace fovea
