#include "server/transport/grpc/stream_codec.h"

#include <string>
#include <utility>

#include "base/limits.h"
#include "base/status.h"
#include "proto/fovea/v1/vision.pb.h"
#include "server/transport/grpc/piece_stream.h"
#include "server/transport/grpc/vision_codec.h"
#include "server/transport/grpc/wire_reader.h"

namespace fovea {
namespace {

using v1::StreamImagesRequest;
using v1::StreamImagesResponse;

absl::Status ReadOrder(const StreamImagesRequest& header, std::optional<AnswerOrder>* order) {
  switch (header.order()) {
    case StreamImagesRequest::ORDER_UNSPECIFIED:
    case StreamImagesRequest::IN_ORDER:
      *order = AnswerOrder::kInOrder;
      return absl::OkStatus();
    case StreamImagesRequest::AS_THEY_COME:
      *order = AnswerOrder::kAsTheyCome;
      return absl::OkStatus();
    default:
      return InvalidArgument("request.order", "order is unknown");
  }
}

absl::Status ReadTask(int field, const ReceivedBytes& message, CheckModel check_model,
                      InferenceRequest* request) {
  switch (field) {
    case StreamImagesRequest::kClassifyFieldNumber:
      return ReadClassifyRequest(message, check_model, request);
    case StreamImagesRequest::kDetectFieldNumber:
      return ReadDetectRequest(message, check_model, request);
    default:
      return ReadSegmentRequest(message, check_model, request);
  }
}

EncodedMessage WithHead(EncodedMessage answer, uint64_t number, std::string_view id) {
  StreamImagesResponse head;
  head.set_number(number);
  head.set_id(std::string(id));
  answer.Append(head.SerializeAsString());
  return answer;
}

}  // namespace

absl::Status ReadStreamImagesRequest(const ReceivedBytes& message, CheckModel check_model,
                                     InferenceRequest* request, std::optional<AnswerOrder>* order) {
  constexpr int kTasks[] = {StreamImagesRequest::kClassifyFieldNumber,
                            StreamImagesRequest::kDetectFieldNumber,
                            StreamImagesRequest::kSegmentFieldNumber};
  size_t header_budget = limits::kMaxRequestHeaderBytes;
  SplitMessage split;
  FOVEA_RETURN_IF_ERROR(Split(message.pieces, kTasks, 2, &header_budget, &split));
  StreamImagesRequest header;
  if (!ParsePieces(split.rest, &header)) return MalformedMessage();
  FOVEA_RETURN_IF_ERROR(ReadOrder(header, order));
  request->LimitTime(header.timeout_us());
  if (split.fields.empty()) return InvalidArgument("request.no_task", "the request has no task");
  if (split.fields.size() > 1) {
    return InvalidArgument("request.two_tasks", "the request has more than one task");
  }
  const SplitMessage::Field& task = split.fields[0];
  return ReadTask(task.field, {task.bytes, message.owner}, check_model, request);
}

absl::StatusOr<EncodedMessage> WriteStreamedResults(InferenceResponse& response, const Clock& clock,
                                                    size_t max_bytes) {
  int field = StreamImagesResponse::kSegmentFieldNumber;
  WriteMessage write = WriteSegmentResponse;
  if (std::holds_alternative<ClassifyResults>(response.results)) {
    field = StreamImagesResponse::kClassifyFieldNumber;
    write = WriteClassifyResponse;
  } else if (std::holds_alternative<DetectResults>(response.results)) {
    field = StreamImagesResponse::kDetectFieldNumber;
    write = WriteDetectResponse;
  }
  FOVEA_ASSIGN_OR_RETURN(EncodedMessage results, write(response, clock, max_bytes));
  EncodedMessage message;
  message.AppendMessage(field, std::move(results));
  return message;
}

EncodedMessage WriteStreamedAnswer(EncodedMessage results, uint64_t number, std::string_view id) {
  return WithHead(std::move(results), number, id);
}

EncodedMessage WriteStreamedError(int code, std::string_view reason, std::string_view message,
                                  uint64_t number, std::string_view id) {
  StreamImagesResponse answer;
  v1::RequestError& error = *answer.mutable_error();
  error.set_code(code);
  error.set_reason(std::string(reason));
  error.set_message(std::string(message));
  EncodedMessage encoded;
  encoded.Append(answer.SerializeAsString());
  return WithHead(std::move(encoded), number, id);
}

}  // namespace fovea
