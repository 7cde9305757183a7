#include "server/transport/messages/vision_messages.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status.h"
#include "server/transport/messages/infer_rules.h"

namespace fovea {
namespace {

constexpr int kDefaultTopK = 5;

// What the answers of all tasks have, but for the receipt.
template <typename Message>
void FillHead(const InferenceResponse& response, Message* answer) {
  answer->set_model_name(response.model_name);
  answer->set_model_version(response.model_version);
  answer->set_id(response.id);
  answer->set_attention(response.attention);
  answer->set_untrained(response.untrained);
}

absl::StatusOr<RequestOptions> ReadOptions(const v1::ClassifyRequest& request) {
  if (request.top_k() < 0) return InvalidArgument("request.top_k", "top_k is below 0");
  return ClassifyOptions{.top_k = request.top_k() == 0 ? kDefaultTopK : request.top_k()};
}

absl::StatusOr<RequestOptions> ReadOptions(const v1::DetectRequest& request) {
  if (!(request.score_threshold() >= 0 && request.score_threshold() <= 1)) {
    return InvalidArgument("request.score_threshold", "score_threshold lies outside of [0, 1]");
  }
  if (request.max_detections() < 0) {
    return InvalidArgument("request.max_detections", "max_detections is below 0");
  }
  DetectOptions options{.score_threshold = request.score_threshold(),
                        .max_detections = request.max_detections(),
                        .classes = {request.classes().begin(), request.classes().end()}};
  switch (request.mask_format()) {
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

absl::StatusOr<RequestOptions> ReadOptions(const v1::SegmentRequest& request) {
  SegmentOptions options{.confidence = request.confidence()};
  switch (request.map_format()) {
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

// A request of any task.
template <typename Message>
absl::Status ReadAny(const Message& message, size_t images, CheckModel check_model,
                     InferenceRequest* request) {
  FOVEA_RETURN_IF_ERROR(CheckRequestId(message.id()));
  if (!message.id().empty()) request->id = message.id();
  if (images == 0) return InvalidArgument("request.no_image", "the request has no image");
  if (images > limits::kMaxBatchSize) {
    return InvalidArgument("request.image_count",
                           absl::StrCat("more than ", limits::kMaxBatchSize, " images"));
  }
  request->model_name = message.model_name();
  request->model_version = message.model_version();
  request->priority = message.priority();
  FOVEA_ASSIGN_OR_RETURN(request->options, ReadOptions(message));
  FOVEA_RETURN_IF_ERROR(check_model(*request));
  return request->TakeMemory(HeldBytes(request->options));
}

}  // namespace

absl::Status ReadRequest(const v1::ClassifyRequest& message, size_t images, CheckModel check_model,
                         InferenceRequest* request) {
  return ReadAny(message, images, check_model, request);
}

absl::Status ReadRequest(const v1::DetectRequest& message, size_t images, CheckModel check_model,
                         InferenceRequest* request) {
  return ReadAny(message, images, check_model, request);
}

absl::Status ReadRequest(const v1::SegmentRequest& message, size_t images, CheckModel check_model,
                         InferenceRequest* request) {
  return ReadAny(message, images, check_model, request);
}

void FillAnswer(InferenceResponse& response, v1::ClassifyResponse* answer) {
  FillHead(response, answer);
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
}

void FillAnswer(InferenceResponse& response, v1::DetectResponse* answer) {
  FillHead(response, answer);
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
}

void FillAnswer(InferenceResponse& response, v1::SegmentResponse* answer) {
  FillHead(response, answer);
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
}

void FillReceipt(const Receipt& receipt, v1::Receipt* message) {
  const StageTimes& stages = receipt.stages;
  message->set_receive_ns(stages[Stage::kReceive]);
  message->set_decode_ns(stages[Stage::kDecode]);
  message->set_preprocess_ns(stages[Stage::kPreprocess]);
  message->set_queue_ns(stages[Stage::kQueue]);
  message->set_compute_ns(stages[Stage::kCompute]);
  message->set_postprocess_ns(stages[Stage::kPostprocess]);
  message->set_encode_ns(stages[Stage::kEncode]);
  message->set_batch_size(receipt.batch_size);
  message->set_batch_threads(receipt.batch_threads);
  message->set_batch_peak_bytes(receipt.batch_peak_bytes);
  if (receipt.device_times) {
    message->set_h2d_ns(receipt.device_times->h2d);
    message->set_kernels_ns(receipt.device_times->kernels);
    message->set_d2h_ns(receipt.device_times->d2h);
  }
  message->set_padding(receipt.padding);
  message->set_principal(receipt.principal);
  message->set_experiment(receipt.experiment);
  message->set_experiment_arm(receipt.experiment_arm);
}

}  // namespace fovea
