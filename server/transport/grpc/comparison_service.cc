#include "server/transport/grpc/comparison_service.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/comparison.h"
#include "server/core/request_memory.h"
#include "server/core/variant_serving.h"
#include "server/transport/grpc/control_message.h"
#include "server/transport/grpc/grpc_caller.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/refused_stream.h"
#include "server/transport/grpc/unary_answer.h"
#include "server/transport/grpc/update_stream.h"
#include "server/transport/messages/comparison_messages.h"
#include "server/transport/messages/explanation_messages.h"

namespace fovea {
namespace {

// The request's images count until the experiment is over.
template <typename Message>
absl::Status Receive(const GrpcContext& context, const grpc::ByteBuffer& buffer,
                     RequestMemory& memory, Message* message) {
  FOVEA_ASSIGN_OR_RETURN(const ReceivedBytes bytes,
                         ReceiveMessage(buffer, context.max_message_bytes, &memory));
  FOVEA_RETURN_IF_ERROR(memory.Take(static_cast<int64_t>(buffer.Length())));
  return ParsePieces(bytes.pieces, message) ? absl::OkStatus() : MalformedMessage();
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* ComparisonService::Compare(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* message) {
  using Refused = RefusedStream<grpc::ServerWriteReactor<grpc::ByteBuffer>>;
  Caller caller = CallerOf(context_, Method("Compare"), *call);
  auto memory = std::make_shared<RequestMemory>(context_.api.memory());
  absl::Status status = caller.Admit(context_.api.clock().Now());
  CompareRequest request;
  if (status.ok()) {
    status = OrOutOfMemory([&]() -> absl::Status {
      v1::CompareRequest wire;
      FOVEA_RETURN_IF_ERROR(Receive(context_, *message, *memory, &wire));
      FOVEA_ASSIGN_OR_RETURN(request, ReadCompareRequest(wire));
      return absl::OkStatus();
    });
  }
  ReleaseMessage(message);
  if (!status.ok()) return new Refused(EndCall(status, *call));
  const auto stream = UpdateStream::Make(std::move(caller), std::move(memory), call);
  context_.api.Compare(
      std::move(request), stream->cancellation(),
      [stream](const ComparisonProgress& progress) {
        v1::CompareResponse response;
        FillProgress(progress, response.mutable_progress());
        stream->Tell(WriteControlMessage(response));
      },
      [stream](absl::StatusOr<Comparison> comparison) {
        if (!comparison.ok()) return stream->End(comparison.status());
        v1::CompareResponse response;
        FillComparison(*comparison, response.mutable_comparison());
        stream->End(WriteControlMessage(response));
      });
  return stream.get();
}

grpc::ServerUnaryReactor* ComparisonService::Explain(grpc::CallbackServerContext* call,
                                                     const grpc::ByteBuffer* message,
                                                     grpc::ByteBuffer* answer) {
  auto* reactor = new UnaryCall(context_, Method("Explain"), call, answer);
  ExplainRequest request;
  const absl::Status readable = OrOutOfMemory([&]() -> absl::Status {
    FOVEA_RETURN_IF_ERROR(reactor->Admit());
    v1::ExplainRequest wire;
    FOVEA_RETURN_IF_ERROR(Receive(context_, *message, *reactor->memory(), &wire));
    FOVEA_ASSIGN_OR_RETURN(request, ReadExplainRequest(wire));
    return absl::OkStatus();
  });
  ReleaseMessage(message);
  if (!readable.ok()) {
    reactor->Fail(readable);
    return reactor;
  }
  context_.api.Explain(std::move(request), reactor->cancellation(),
                       [reactor](absl::StatusOr<Explanation> explanation) {
                         if (!explanation.ok()) return reactor->Fail(explanation.status());
                         reactor->AnswerWith([&] { return ToMessage(*std::move(explanation)); });
                       });
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ComparisonService::Serve(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* message) {
  using Refused = RefusedStream<grpc::ServerWriteReactor<grpc::ByteBuffer>>;
  Caller caller = CallerOf(context_, Method("Serve"), *call);
  auto memory = std::make_shared<RequestMemory>(context_.api.memory());
  absl::Status status = caller.Admit(context_.api.clock().Now());
  ServeRequest request;
  if (status.ok()) {
    status = OrOutOfMemory([&]() -> absl::Status {
      v1::ServeRequest wire;
      FOVEA_RETURN_IF_ERROR(Receive(context_, *message, *memory, &wire));
      FOVEA_ASSIGN_OR_RETURN(request, ReadServeRequest(wire));
      return absl::OkStatus();
    });
  }
  ReleaseMessage(message);
  if (!status.ok()) return new Refused(EndCall(status, *call));
  memory->Release();  // what is left of it is bounded by the number of calls
  const auto stream = UpdateStream::Make(std::move(caller), std::move(memory), call);
  context_.api.Serve(
      std::move(request), stream->cancellation(),
      [stream](const ComparisonProgress& progress) {
        v1::ServeResponse response;
        FillProgress(progress, response.mutable_progress());
        stream->Tell(WriteControlMessage(response));
      },
      [stream](const std::vector<ServedVariant>& variants) {
        v1::ServeResponse response;
        FillServed(variants, response.mutable_served());
        stream->Tell(WriteControlMessage(response));
      },
      [stream](const absl::Status& why) { stream->End(why); });
  return stream.get();
}

}  // namespace fovea
