#include "server/transport/grpc/vision_codec.h"

#include <google/protobuf/arena.h>

#include <memory>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "proto/fovea/v1/vision.pb.h"
#include "server/transport/grpc/piece_stream.h"
#include "server/transport/grpc/wire_reader.h"
#include "server/transport/messages/infer_rules.h"
#include "server/transport/messages/vision_messages.h"

namespace fovea {
namespace {

// A request of any task.
template <typename Message>
absl::Status ReadImagesRequest(const ReceivedBytes& message, CheckModel check_model,
                               InferenceRequest* request) {
  constexpr int kWanted[] = {Message::kImagesFieldNumber};
  size_t header_budget = limits::kMaxRequestHeaderBytes;
  SplitMessage split;
  FOVEA_RETURN_IF_ERROR(
      Split(message.pieces, kWanted, limits::kMaxBatchSize, &header_budget, &split));
  Message header;
  if (!ParsePieces(split.rest, &header)) return MalformedMessage();

  FOVEA_RETURN_IF_ERROR(ReadRequest(header, split.fields.size(), check_model, request));
  ImageFiles images;
  images.files.reserve(split.fields.size());
  for (SplitMessage::Field& image : split.fields) {
    images.files.emplace_back(std::move(image.bytes), message.owner);
  }
  request->input = std::move(images);
  return absl::OkStatus();
}

// The answer, and the receipt, which ends the encode stage: it holds the time of everything before
// it, and what is left is the receipt itself.
template <typename Message>
absl::StatusOr<EncodedMessage> WriteAnswer(InferenceResponse& response, const Clock& clock,
                                           size_t max_bytes) {
  google::protobuf::Arena arena;
  auto* answer = google::protobuf::Arena::CreateMessage<Message>(&arena);
  FillAnswer(response, answer);
  FOVEA_RETURN_IF_ERROR(CheckAnswerBytes(answer->ByteSizeLong(), max_bytes));
  EncodedMessage message;
  message.Append(answer->SerializeAsString());
  Receipt& receipt = response.receipt;
  receipt.stages.EndStage(Stage::kEncode, clock.Now());
  auto* tail = google::protobuf::Arena::CreateMessage<Message>(&arena);
  FillReceipt(receipt, tail->mutable_receipt());
  message.Append(tail->SerializeAsString());
  return message;
}

}  // namespace

absl::Status ReadClassifyRequest(const ReceivedBytes& message, CheckModel check_model,
                                 InferenceRequest* request) {
  return ReadImagesRequest<v1::ClassifyRequest>(message, check_model, request);
}

absl::Status ReadDetectRequest(const ReceivedBytes& message, CheckModel check_model,
                               InferenceRequest* request) {
  return ReadImagesRequest<v1::DetectRequest>(message, check_model, request);
}

absl::Status ReadSegmentRequest(const ReceivedBytes& message, CheckModel check_model,
                                InferenceRequest* request) {
  return ReadImagesRequest<v1::SegmentRequest>(message, check_model, request);
}

absl::StatusOr<EncodedMessage> WriteClassifyResponse(InferenceResponse& response,
                                                     const Clock& clock, size_t max_bytes) {
  return WriteAnswer<v1::ClassifyResponse>(response, clock, max_bytes);
}

absl::StatusOr<EncodedMessage> WriteDetectResponse(InferenceResponse& response, const Clock& clock,
                                                   size_t max_bytes) {
  return WriteAnswer<v1::DetectResponse>(response, clock, max_bytes);
}

absl::StatusOr<EncodedMessage> WriteSegmentResponse(InferenceResponse& response, const Clock& clock,
                                                    size_t max_bytes) {
  return WriteAnswer<v1::SegmentResponse>(response, clock, max_bytes);
}

}  // namespace fovea
