#include "server/transport/grpc/vision_codec.h"

#include <google/protobuf/arena.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "proto/fovea/v1/vision.pb.h"
#include "server/transport/grpc/piece_stream.h"
#include "server/transport/grpc/wire_reader.h"

namespace fovea {
namespace {

constexpr int kDefaultTopK = 5;

// The images as the elements of a BYTES tensor: their lengths go in between.
InputTensor ImageTensor(const std::vector<SplitMessage::Field>& images,
                        const std::shared_ptr<const void>& owner) {
  struct Owners {
    std::vector<uint32_t> lengths;
    std::shared_ptr<const void> images;
  };
  auto owners = std::make_shared<Owners>();
  owners->images = owner;
  owners->lengths.reserve(images.size());  // the pieces point into it
  std::vector<ScatteredBytes::Piece> pieces;
  for (const SplitMessage::Field& image : images) {
    uint32_t length = 0;
    for (const ScatteredBytes::Piece piece : image.bytes) length += piece.size();
    owners->lengths.push_back(length);
    pieces.push_back(std::as_bytes(std::span(&owners->lengths.back(), 1)));
    pieces.insert(pieces.end(), image.bytes.begin(), image.bytes.end());
  }
  return {.name = "image",
          .type = DataType::kBytes,
          .shape = {static_cast<int64_t>(images.size()), 1},
          .data = ScatteredBytes(std::move(pieces), std::move(owners))};
}

}  // namespace

absl::Status ReadClassifyRequest(const ReceivedBytes& message, CheckModel check_model,
                                 InferenceRequest* request) {
  constexpr int kWanted[] = {v1::ClassifyRequest::kImagesFieldNumber};
  size_t header_budget = limits::kMaxRequestHeaderBytes;
  SplitMessage split;
  FOVEA_RETURN_IF_ERROR(
      Split(message.pieces, kWanted, limits::kMaxBatchSize, &header_budget, &split));
  v1::ClassifyRequest header;
  if (!ParsePieces(split.rest, &header)) return MalformedMessage();

  if (header.id().size() > limits::kMaxRequestIdBytes) {
    return InvalidArgument(
        "request.id", absl::StrCat("the id is longer than ", limits::kMaxRequestIdBytes, " bytes"));
  }
  request->id = header.id();
  if (split.fields.empty()) return InvalidArgument("request.no_image", "the request has no image");
  if (header.top_k() < 0) return InvalidArgument("request.top_k", "top_k is below 0");

  request->model_name = header.model_name();
  request->model_version = header.model_version();
  request->priority = header.priority();
  request->top_k = header.top_k() == 0 ? kDefaultTopK : header.top_k();
  FOVEA_RETURN_IF_ERROR(check_model(*request));
  request->inputs.push_back(ImageTensor(split.fields, message.owner));
  return absl::OkStatus();
}

EncodedMessage WriteClassifyResponse(InferenceResponse& response, const Clock& clock) {
  google::protobuf::Arena arena;
  auto* head = google::protobuf::Arena::CreateMessage<v1::ClassifyResponse>(&arena);
  head->set_model_name(response.model_name);
  head->set_model_version(response.model_version);
  head->set_id(response.id);
  head->set_attention(response.attention);
  head->set_untrained(response.untrained);
  for (const std::vector<ClassScore>& scores : response.classes) {
    v1::Classification* classification = head->add_results();
    for (const ClassScore& score : scores) {
      v1::ClassScore* best = classification->add_classes();
      best->set_index(score.index);
      best->set_label(score.label);
      best->set_confidence(score.confidence);
      best->set_logit(score.logit);
    }
  }
  EncodedMessage message;
  message.Append(head->SerializeAsString());

  // The receipt holds the time of everything before it: what is left is the receipt itself.
  StageTimes& stages = response.receipt.stages;
  stages.EndStage(Stage::kEncode, clock.Now());
  auto* tail = google::protobuf::Arena::CreateMessage<v1::ClassifyResponse>(&arena);
  v1::Receipt* receipt = tail->mutable_receipt();
  receipt->set_receive_ns(stages[Stage::kReceive]);
  receipt->set_decode_ns(stages[Stage::kDecode]);
  receipt->set_preprocess_ns(stages[Stage::kPreprocess]);
  receipt->set_queue_ns(stages[Stage::kQueue]);
  receipt->set_compute_ns(stages[Stage::kCompute]);
  receipt->set_postprocess_ns(stages[Stage::kPostprocess]);
  receipt->set_encode_ns(stages[Stage::kEncode]);
  receipt->set_batch_size(response.receipt.batch_size);
  receipt->set_batch_peak_bytes(response.receipt.batch_peak_bytes);
  message.Append(tail->SerializeAsString());
  return message;
}

}  // namespace fovea
