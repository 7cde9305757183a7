#include "server/transport/grpc/comparison_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/out_of_memory.h"
#include "base/status.h"
#include "server/core/comparison.h"
#include "server/core/request_memory.h"
#include "server/core/sweep.h"
#include "server/core/variant_serving.h"
#include "server/transport/grpc/control_message.h"
#include "server/transport/grpc/grpc_caller.h"
#include "server/transport/grpc/grpc_status.h"
#include "server/transport/grpc/refused_stream.h"
#include "server/transport/grpc/unary_answer.h"
#include "server/transport/grpc/update_stream.h"
#include "server/transport/grpc/wire_reader.h"
#include "server/transport/messages/comparison_messages.h"
#include "server/transport/messages/explanation_messages.h"
#include "server/transport/messages/sweep_messages.h"
#include "server/transport/messages/variant_messages.h"

namespace fovea {
namespace {

// What a call's message may be.
struct MessageBounds {
  std::string_view reason;  // of a message with more fields
  std::span<const FieldBound> fields;
  int64_t max_bytes = limits::kMaxMessageBytes;
};

constexpr FieldBound kVariants = {
    .field = 1, .most = limits::kMaxComparedVariants, .what = "variants"};
constexpr FieldBound kCompareFields[] = {kVariants,
                                         {.field = v1::CompareRequest::kImagesFieldNumber,
                                          .most = limits::kMaxComparedImages,
                                          .what = "images",
                                          .is_file = true}};
constexpr FieldBound kSweepFields[] = {
    kVariants,
    {.field = v1::SweepRequest::kValuesFieldNumber,
     .most = limits::kMaxSweptValues,
     .what = "values"},
    {.field = v1::SweepRequest::kImageFieldNumber, .most = 1, .what = "image", .is_file = true}};
constexpr FieldBound kExplainFields[] = {
    {.field = v1::ExplainRequest::kImageFieldNumber, .most = 1, .what = "image", .is_file = true}};
constexpr FieldBound kServeFields[] = {kVariants};
static_assert(v1::CompareRequest::kVariantsFieldNumber == kVariants.field &&
              v1::SweepRequest::kVariantsFieldNumber == kVariants.field &&
              v1::ServeRequest::kVariantsFieldNumber == kVariants.field);

constexpr MessageBounds kCompareBounds = {"compare.bad_request", kCompareFields};
constexpr MessageBounds kSweepBounds = {"sweep.bad_request", kSweepFields};
constexpr MessageBounds kExplainBounds = {"explain.bad_request", kExplainFields};
constexpr MessageBounds kServeBounds = {"serve.bad_request", kServeFields,
                                        limits::kMaxServeMessageBytes};

// The request's images count until the experiment is over.
template <typename Message>
absl::Status Receive(const GrpcContext& context, const MessageBounds& bounds,
                     const grpc::ByteBuffer& buffer, RequestMemory& memory, Message* message) {
  FOVEA_ASSIGN_OR_RETURN(
      const ReceivedBytes bytes,
      ReceiveMessage(buffer, std::min(bounds.max_bytes, context.max_message_bytes), &memory));
  FOVEA_RETURN_IF_ERROR(memory.Take(static_cast<int64_t>(buffer.Length())));
  FOVEA_RETURN_IF_ERROR(CheckFields(bytes.pieces, bounds.fields, bounds.reason));
  return ParsePieces(bytes.pieces, message) ? absl::OkStatus() : MalformedMessage();
}

// A call that tells how it goes on: admits it, has `read` make of its message what `start` starts
// with what it counts in and the stream that answers. `method`: its row.
template <typename Wire, typename Read, typename Start>
grpc::ServerWriteReactor<grpc::ByteBuffer>* Begin(GrpcContext& context, const ApiMethod& method,
                                                  const MessageBounds& bounds,
                                                  grpc::CallbackServerContext* call,
                                                  const grpc::ByteBuffer* message, Read read,
                                                  Start start) {
  using Refused = RefusedStream<grpc::ServerWriteReactor<grpc::ByteBuffer>>;
  Caller caller = CallerOf(context, method, *call);
  auto memory = std::make_shared<RequestMemory>(context.api.memory());
  absl::Status status = caller.Admit(context.api.clock().Now());
  std::optional<typename std::invoke_result_t<Read, Wire&>::value_type> request;
  if (status.ok()) {
    status = OrOutOfMemory([&]() -> absl::Status {
      Wire wire;
      FOVEA_RETURN_IF_ERROR(Receive(context, bounds, *message, *memory, &wire));
      FOVEA_ASSIGN_OR_RETURN(request, read(wire));
      return absl::OkStatus();
    });
  }
  ReleaseMessage(message);
  if (!status.ok()) return new Refused(EndCall(status, *call));
  const auto stream = UpdateStream::Make(std::move(caller), memory, call);
  start(*std::move(request), *memory, stream);
  return stream.get();
}

// Tells `stream` of the progress, in messages of its call.
template <typename Response>
ProgressListener TellProgress(const std::shared_ptr<UpdateStream>& stream) {
  return [stream](const ComparisonProgress& progress) {
    Response response;
    FillProgress(progress, response.mutable_progress());
    stream->Tell(WriteControlMessage(response));
  };
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* ComparisonService::Compare(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* message) {
  return Begin<v1::CompareRequest>(
      context_, Method("Compare"), kCompareBounds, call, message, ReadCompareRequest,
      [&](CompareRequest request, RequestMemory&, const std::shared_ptr<UpdateStream>& stream) {
        context_.api.Compare(std::move(request), stream->cancellation(),
                             TellProgress<v1::CompareResponse>(stream),
                             [stream](absl::StatusOr<Comparison> comparison) {
                               if (!comparison.ok()) return stream->End(comparison.status());
                               v1::CompareResponse response;
                               FillComparison(*comparison, response.mutable_comparison());
                               stream->End(WriteControlMessage(response));
                             });
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ComparisonService::Sweep(
    grpc::CallbackServerContext* call, const grpc::ByteBuffer* message) {
  return Begin<v1::SweepRequest>(
      context_, Method("Sweep"), kSweepBounds, call, message, ReadSweepRequest,
      [&](SweepRequest request, RequestMemory&, const std::shared_ptr<UpdateStream>& stream) {
        context_.api.Sweep(std::move(request), stream->cancellation(),
                           TellProgress<v1::SweepResponse>(stream),
                           [stream](absl::StatusOr<fovea::Sweep> sweep) {
                             if (!sweep.ok()) return stream->End(sweep.status());
                             v1::SweepResponse response;
                             FillSweep(*sweep, response.mutable_sweep());
                             stream->End(WriteControlMessage(response));
                           });
      });
}

grpc::ServerUnaryReactor* ComparisonService::Explain(grpc::CallbackServerContext* call,
                                                     const grpc::ByteBuffer* message,
                                                     grpc::ByteBuffer* answer) {
  auto* reactor = new UnaryCall(context_, Method("Explain"), call, answer);
  ExplainRequest request;
  const absl::Status readable = OrOutOfMemory([&]() -> absl::Status {
    FOVEA_RETURN_IF_ERROR(reactor->Admit());
    v1::ExplainRequest wire;
    FOVEA_RETURN_IF_ERROR(Receive(context_, kExplainBounds, *message, *reactor->memory(), &wire));
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
  return Begin<v1::ServeRequest>(
      context_, Method("Serve"), kServeBounds, call, message, ReadServeRequest,
      [&](ServeRequest request, RequestMemory& memory,
          const std::shared_ptr<UpdateStream>& stream) {
        memory.Release();  // what is left of it is bounded by the number of calls
        context_.api.Serve(
            std::move(request), stream->cancellation(), TellProgress<v1::ServeResponse>(stream),
            [stream](const std::vector<ServedVariant>& variants) {
              v1::ServeResponse response;
              FillServed(variants, response.mutable_served());
              stream->Tell(WriteControlMessage(response));
            },
            [stream](const absl::Status& why) { stream->End(why); });
      });
}

}  // namespace fovea
