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
  request->options = ClassifyOptions{.top_k = header.top_k() == 0 ? kDefaultTopK : header.top_k()};
  FOVEA_RETURN_IF_ERROR(check_model(*request));
  ImageFiles images;
  images.files.reserve(split.fields.size());
  for (SplitMessage::Field& image : split.fields) {
    images.files.emplace_back(std::move(image.bytes), message.owner);
  }
  request->input = std::move(images);
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
  for (const auto& scores : std::get<ClassifyResults>(response.results)) {
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
  receipt->set_padding(response.receipt.padding);
  message.Append(tail->SerializeAsString());
  return message;
}

}  // namespace fovea
