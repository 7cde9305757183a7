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

// What the requests of all tasks have. `options` reads the rest of the message.
template <typename Message>
absl::Status ReadImagesRequest(const ReceivedBytes& message, CheckModel check_model,
                               InferenceRequest* request,
                               absl::StatusOr<RequestOptions> (*options)(const Message& header)) {
  constexpr int kWanted[] = {Message::kImagesFieldNumber};
  size_t header_budget = limits::kMaxRequestHeaderBytes;
  SplitMessage split;
  FOVEA_RETURN_IF_ERROR(
      Split(message.pieces, kWanted, limits::kMaxBatchSize, &header_budget, &split));
  Message header;
  if (!ParsePieces(split.rest, &header)) return MalformedMessage();

  if (header.id().size() > limits::kMaxRequestIdBytes) {
    return InvalidArgument(
        "request.id", absl::StrCat("the id is longer than ", limits::kMaxRequestIdBytes, " bytes"));
  }
  request->id = header.id();
  if (split.fields.empty()) return InvalidArgument("request.no_image", "the request has no image");
  request->model_name = header.model_name();
  request->model_version = header.model_version();
  request->priority = header.priority();
  FOVEA_ASSIGN_OR_RETURN(request->options, options(header));
  FOVEA_RETURN_IF_ERROR(check_model(*request));
  FOVEA_RETURN_IF_ERROR(request->TakeMemory(HeldBytes(request->options)));
  ImageFiles images;
  images.files.reserve(split.fields.size());
  for (SplitMessage::Field& image : split.fields) {
    images.files.emplace_back(std::move(image.bytes), message.owner);
  }
  request->input = std::move(images);
  return absl::OkStatus();
}

// What the answers of all tasks have, but for the receipt.
template <typename Message>
Message* MakeAnswer(const InferenceResponse& response, google::protobuf::Arena& arena) {
  auto* answer = google::protobuf::Arena::CreateMessage<Message>(&arena);
  answer->set_model_name(response.model_name);
  answer->set_model_version(response.model_version);
  answer->set_id(response.id);
  answer->set_attention(response.attention);
  answer->set_untrained(response.untrained);
  return answer;
}

// `answer`, and the receipt, which ends the encode stage: it holds the time of everything before
// it, and what is left is the receipt itself.
template <typename Message>
absl::StatusOr<EncodedMessage> WithReceipt(const Message& answer, Receipt& receipt,
                                           const Clock& clock, size_t max_bytes,
                                           google::protobuf::Arena& arena) {
  FOVEA_RETURN_IF_ERROR(CheckAnswerBytes(answer.ByteSizeLong(), max_bytes));
  EncodedMessage message;
  message.Append(answer.SerializeAsString());
  StageTimes& stages = receipt.stages;
  stages.EndStage(Stage::kEncode, clock.Now());
  auto* tail = google::protobuf::Arena::CreateMessage<Message>(&arena);
  v1::Receipt* to = tail->mutable_receipt();
  to->set_receive_ns(stages[Stage::kReceive]);
  to->set_decode_ns(stages[Stage::kDecode]);
  to->set_preprocess_ns(stages[Stage::kPreprocess]);
  to->set_queue_ns(stages[Stage::kQueue]);
  to->set_compute_ns(stages[Stage::kCompute]);
  to->set_postprocess_ns(stages[Stage::kPostprocess]);
  to->set_encode_ns(stages[Stage::kEncode]);
  to->set_batch_size(receipt.batch_size);
  to->set_batch_peak_bytes(receipt.batch_peak_bytes);
  to->set_padding(receipt.padding);
  message.Append(tail->SerializeAsString());
  return message;
}

absl::StatusOr<RequestOptions> ReadOptions(const v1::ClassifyRequest& header) {
  if (header.top_k() < 0) return InvalidArgument("request.top_k", "top_k is below 0");
  return ClassifyOptions{.top_k = header.top_k() == 0 ? kDefaultTopK : header.top_k()};
}

absl::StatusOr<RequestOptions> ReadOptions(const v1::DetectRequest& header) {
  if (!(header.score_threshold() >= 0 && header.score_threshold() <= 1)) {
    return InvalidArgument("request.score_threshold", "score_threshold lies outside of [0, 1]");
  }
  if (header.max_detections() < 0) {
    return InvalidArgument("request.max_detections", "max_detections is below 0");
  }
  DetectOptions options{.score_threshold = header.score_threshold(),
                        .max_detections = header.max_detections(),
                        .classes = {header.classes().begin(), header.classes().end()}};
  switch (header.mask_format()) {
    case v1::DetectRequest::MASK_FORMAT_UNSPECIFIED:
      break;
    case v1::DetectRequest::RUN_LENGTHS:
      options.masks = MaskFormat::kRunLengths;
      break;
    case v1::DetectRequest::PNG:
      options.masks = MaskFormat::kPng;
      break;
    default:
      return InvalidArgument("request.mask_format", "mask_format is unknown");
  }
  return options;
}

absl::StatusOr<RequestOptions> ReadOptions(const v1::SegmentRequest& header) {
  SegmentOptions options{.confidence = header.confidence()};
  switch (header.map_format()) {
    case v1::SegmentRequest::MAP_FORMAT_UNSPECIFIED:
    case v1::SegmentRequest::PNG:
      break;
    case v1::SegmentRequest::RUN_LENGTHS:
      options.format = MapFormat::kRunLengths;
      break;
    default:
      return InvalidArgument("request.map_format", "map_format is unknown");
  }
  return options;
}

}  // namespace

absl::Status ReadClassifyRequest(const ReceivedBytes& message, CheckModel check_model,
                                 InferenceRequest* request) {
  return ReadImagesRequest<v1::ClassifyRequest>(message, check_model, request, ReadOptions);
}

absl::Status ReadDetectRequest(const ReceivedBytes& message, CheckModel check_model,
                               InferenceRequest* request) {
  return ReadImagesRequest<v1::DetectRequest>(message, check_model, request, ReadOptions);
}

absl::Status ReadSegmentRequest(const ReceivedBytes& message, CheckModel check_model,
                                InferenceRequest* request) {
  return ReadImagesRequest<v1::SegmentRequest>(message, check_model, request, ReadOptions);
}

absl::StatusOr<EncodedMessage> WriteClassifyResponse(InferenceResponse& response,
                                                     const Clock& clock, size_t max_bytes) {
  google::protobuf::Arena arena;
  auto* answer = MakeAnswer<v1::ClassifyResponse>(response, arena);
  for (const auto& scores : std::get<ClassifyResults>(response.results)) {
    v1::Classification* classification = answer->add_results();
    for (const ClassScore& score : scores) {
      v1::ClassScore* best = classification->add_classes();
      best->set_index(score.index);
      best->set_label(score.label);
      best->set_confidence(score.confidence);
      best->set_logit(score.logit);
    }
  }
  return WithReceipt(*answer, response.receipt, clock, max_bytes, arena);
}

absl::StatusOr<EncodedMessage> WriteDetectResponse(InferenceResponse& response, const Clock& clock,
                                                   size_t max_bytes) {
  google::protobuf::Arena arena;
  auto* answer = MakeAnswer<v1::DetectResponse>(response, arena);
  for (ImageDetections& found : std::get<DetectResults>(response.results)) {
    v1::Detections* result = answer->add_results();
    result->set_image_height(static_cast<int32_t>(found.image.height));
    result->set_image_width(static_cast<int32_t>(found.image.width));
    for (Detection& detection : found.detections) {
      v1::Detection* to = result->add_detections();
      to->mutable_box()->set_left(detection.box.left);
      to->mutable_box()->set_top(detection.box.top);
      to->mutable_box()->set_right(detection.box.right);
      to->mutable_box()->set_bottom(detection.box.bottom);
      to->set_score(detection.score);
      to->set_class_index(detection.class_index);
      to->set_label(detection.label);
      if (detection.mask) {
        v1::InstanceMask* mask = to->mutable_mask();
        mask->set_run_lengths(std::move(detection.mask->run_lengths));
        mask->set_png(std::move(detection.mask->png));
        mask->set_left(static_cast<int32_t>(detection.mask->left));
        mask->set_top(static_cast<int32_t>(detection.mask->top));
        mask->set_pixels(detection.mask->pixels);
      }
    }
  }
  return WithReceipt(*answer, response.receipt, clock, max_bytes, arena);
}

absl::StatusOr<EncodedMessage> WriteSegmentResponse(InferenceResponse& response, const Clock& clock,
                                                    size_t max_bytes) {
  google::protobuf::Arena arena;
  auto* answer = MakeAnswer<v1::SegmentResponse>(response, arena);
  for (ImageSegmentation& map : std::get<SegmentResults>(response.results)) {
    v1::Segmentation* result = answer->add_results();
    result->set_image_height(static_cast<int32_t>(map.image.height));
    result->set_image_width(static_cast<int32_t>(map.image.width));
    result->set_class_map_png(std::move(map.class_map_png));
    result->set_confidence_png(std::move(map.confidence_png));
    for (ClassArea& area : map.classes) {
      v1::ClassArea* to = result->add_classes();
      to->set_class_index(area.class_index);
      to->set_label(area.label);
      to->set_pixels(area.pixels);
      to->set_run_lengths(std::move(area.run_lengths));
    }
  }
  return WithReceipt(*answer, response.receipt, clock, max_bytes, arena);
}

}  // namespace fovea
