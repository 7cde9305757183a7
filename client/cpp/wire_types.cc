#include "client/cpp/wire_types.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/run_lengths.h"
#include "client/cpp/grey_png.h"

namespace fovea::client {
namespace {

// Where a Fovea server says in a model's metadata what Triton's protocol has no field for.
constexpr char kTask[] = "fovea.task";
constexpr char kAttention[] = "fovea.attention";
constexpr char kBackbone[] = "fovea.backbone";
constexpr char kPrecision[] = "fovea.precision";
constexpr char kUntrained[] = "fovea.untrained";

Receipt FromWire(const fovea::v1::Receipt& receipt) {
  const std::array<int64_t, kStageNames.size()> nanoseconds = {
      receipt.receive_ns(), receipt.decode_ns(),      receipt.preprocess_ns(), receipt.queue_ns(),
      receipt.compute_ns(), receipt.postprocess_ns(), receipt.encode_ns()};
  Receipt result;
  for (size_t i = 0; i < nanoseconds.size(); ++i) {
    result.stages[i] = absl::Nanoseconds(nanoseconds[i]);
  }
  result.batch_size = receipt.batch_size();
  result.batch_threads = receipt.batch_threads();
  result.batch_peak_bytes = receipt.batch_peak_bytes();
  if (receipt.has_kernels_ns()) {
    result.device_times = DeviceTimes{.h2d = absl::Nanoseconds(receipt.h2d_ns()),
                                      .kernels = absl::Nanoseconds(receipt.kernels_ns()),
                                      .d2h = absl::Nanoseconds(receipt.d2h_ns())};
  }
  result.padding = receipt.padding();
  result.experiment = receipt.experiment();
  result.experiment_arm = receipt.experiment_arm();
  return result;
}

using Parameters = google::protobuf::Map<std::string, inference::InferParameter>;

std::optional<int64_t> Integer(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  if (found == parameters.end()) return std::nullopt;
  if (found->second.has_uint64_param()) return static_cast<int64_t>(found->second.uint64_param());
  if (found->second.has_int64_param()) return found->second.int64_param();
  return std::nullopt;
}

std::string Text(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  return found == parameters.end() ? std::string() : found->second.string_param();
}

std::optional<Receipt> ReceiptOf(const Parameters& parameters) {
  Receipt receipt;
  for (size_t i = 0; i < kStageNames.size(); ++i) {
    const auto spent = Integer(parameters, absl::StrCat("fovea.", kStageNames[i].data(), "_ns"));
    if (!spent) return std::nullopt;
    receipt.stages[i] = absl::Nanoseconds(*spent);
  }
  receipt.batch_size = static_cast<int>(Integer(parameters, "fovea.batch_size").value_or(0));
  receipt.batch_threads = static_cast<int>(Integer(parameters, "fovea.batch_threads").value_or(0));
  receipt.batch_peak_bytes = Integer(parameters, "fovea.batch_peak_bytes").value_or(0);
  if (const auto kernels = Integer(parameters, "fovea.kernels_ns")) {
    const auto copy = [&](const char* name) {
      return absl::Nanoseconds(Integer(parameters, name).value_or(0));
    };
    receipt.device_times = DeviceTimes{.h2d = copy("fovea.h2d_ns"),
                                       .kernels = absl::Nanoseconds(*kernels),
                                       .d2h = copy("fovea.d2h_ns")};
  }
  if (const auto padding = parameters.find("fovea.padding"); padding != parameters.end()) {
    receipt.padding = padding->second.double_param();
  }
  receipt.experiment = Text(parameters, "fovea.experiment");
  receipt.experiment_arm = Text(parameters, "fovea.experiment_arm");
  return receipt;
}

TensorInfo FromWire(const inference::ModelMetadataResponse::TensorMetadata& tensor) {
  return {tensor.name(), tensor.datatype(), {tensor.shape().begin(), tensor.shape().end()}};
}

DurationSum FromWire(const inference::StatisticDuration& sum) {
  return {sum.count(), absl::Nanoseconds(static_cast<int64_t>(sum.ns()))};
}

bool IsPicturesSize(int64_t height, int64_t width) {
  return height >= 1 && width >= 1 && height <= limits::kMaxImageSide &&
         width <= limits::kMaxImageSide && height * width <= limits::kMaxImagePixels;
}

// Whether the picture may have the object. Its box may end beside the picture by what rounding
// adds.
bool MayShow(const ImageDetections& picture, const Detection& object) {
  constexpr float kRounding = 1;  // pixels
  constexpr float kMostScore = 1 + 1e-3F;
  const auto lies = [](float at, int side) {
    return at >= -kRounding && at <= static_cast<float>(side) + kRounding;  // NaN does not
  };
  return object.class_index >= 0 && object.class_index < limits::kMaxClasses && object.score >= 0 &&
         object.score <= kMostScore && object.box.left <= object.box.right &&
         object.box.top <= object.box.bottom && lies(object.box.left, picture.image_width) &&
         lies(object.box.right, picture.image_width) &&
         lies(object.box.top, picture.image_height) &&
         lies(object.box.bottom, picture.image_height);
}

// From its classes' run lengths, which cover the picture, each pixel once.
absl::Status FillClassMap(ImageSegmentation& map) {
  const absl::Status broken =
      absl::InternalError("the server's class map does not cover its picture");
  const int64_t height = map.image_height, width = map.image_width, pixels = height * width;
  if (!IsPicturesSize(height, width)) return broken;
  constexpr uint16_t kNone = 0xffff;
  map.class_map.assign(pixels, kNone);
  int64_t filled = 0;
  for (const ClassArea& area : map.classes) {
    const auto runs = ReadRunLengths(area.run_lengths, pixels);
    if (!runs || area.class_index < 0 || area.class_index >= kNone) return broken;
    const int64_t before = filled;
    int64_t at = 0;
    for (size_t i = 0; i < runs->size(); ++i) {
      const int64_t end = at + (*runs)[i];
      if (i % 2 == 0) at = end;  // not of this class
      for (; at < end; ++at) {
        uint16_t& pixel = map.class_map[at % height * width + at / height];
        if (pixel != kNone) return broken;
        pixel = static_cast<uint16_t>(area.class_index);
        ++filled;
      }
    }
    if (filled == before) return broken;  // only classes that it shows are told
  }
  return filled == pixels ? absl::OkStatus() : broken;
}

// What the requests of all tasks have.
template <typename Message, typename Request>
Message TaskMessage(const Request& request) {
  Message message;
  message.set_model_name(request.model.name);
  message.set_model_version(request.model.version);
  message.set_id(request.id);
  for (const std::string& image : request.images) message.add_images(image);
  message.set_priority(request.priority);
  return message;
}

// What the answers of all tasks have.
template <typename Response, typename Message>
Response TaskResponse(const Message& message) {
  Response response;
  response.model = {message.model_name(), message.model_version()};
  response.id = message.id();
  response.attention = message.attention();
  response.untrained = message.untrained();
  response.receipt = FromWire(message.receipt());
  return response;
}

}  // namespace

fovea::v1::ClassifyRequest ToWire(const ClassifyRequest& request) {
  auto message = TaskMessage<fovea::v1::ClassifyRequest>(request);
  message.set_top_k(request.top_k);
  return message;
}

fovea::v1::DetectRequest ToWire(const DetectRequest& request) {
  auto message = TaskMessage<fovea::v1::DetectRequest>(request);
  message.set_score_threshold(request.score_threshold);
  message.set_max_detections(request.max_detections);
  for (const std::string& name : request.classes) message.add_classes(name);
  if (request.masks) message.set_mask_format(fovea::v1::DetectRequest::RUN_LENGTHS);
  return message;
}

ClassifyResponse FromWire(fovea::v1::ClassifyResponse&& message) {
  auto response = TaskResponse<ClassifyResponse>(message);
  for (fovea::v1::Classification& image : *message.mutable_results()) {
    std::vector<ClassScore>& scores = response.images.emplace_back();
    for (fovea::v1::ClassScore& score : *image.mutable_classes()) {
      scores.push_back(
          {score.index(), std::move(*score.mutable_label()), score.confidence(), score.logit()});
    }
  }
  return response;
}

absl::StatusOr<DetectResponse> FromWire(fovea::v1::DetectResponse&& message) {
  auto response = TaskResponse<DetectResponse>(message);
  for (fovea::v1::Detections& image : *message.mutable_results()) {
    ImageDetections& found = response.images.emplace_back();
    found.image_height = image.image_height();
    found.image_width = image.image_width();
    if (!IsPicturesSize(found.image_height, found.image_width)) {
      return absl::InternalError("the server's detections are of a picture that cannot be");
    }
    for (fovea::v1::Detection& one : *image.mutable_detections()) {
      const fovea::v1::Box& box = one.box();
      Detection& detection = found.detections.emplace_back();
      detection = {.box = {box.left(), box.top(), box.right(), box.bottom()},
                   .score = one.score(),
                   .class_index = one.class_index(),
                   .label = std::move(*one.mutable_label()),
                   .mask = std::nullopt};
      if (one.has_mask()) {
        detection.mask = {std::move(*one.mutable_mask()->mutable_run_lengths()),
                          one.mask().pixels()};
      }
      if (!MayShow(found, detection)) {
        return absl::InternalError("the server found an object that cannot be in its picture");
      }
    }
  }
  return response;
}

fovea::v1::SegmentRequest ToWire(const SegmentRequest& request) {
  auto message = TaskMessage<fovea::v1::SegmentRequest>(request);
  message.set_map_format(fovea::v1::SegmentRequest::RUN_LENGTHS);
  message.set_confidence(request.confidence);
  return message;
}

absl::StatusOr<SegmentResponse> FromWire(fovea::v1::SegmentResponse&& message) {
  auto response = TaskResponse<SegmentResponse>(message);
  for (fovea::v1::Segmentation& image : *message.mutable_results()) {
    ImageSegmentation& map = response.images.emplace_back();
    map.image_height = image.image_height();
    map.image_width = image.image_width();
    for (fovea::v1::ClassArea& area : *image.mutable_classes()) {
      map.classes.push_back({area.class_index(), std::move(*area.mutable_label()), area.pixels(),
                             std::move(*area.mutable_run_lengths())});
    }
    if (absl::Status status = FillClassMap(map); !status.ok()) return status;
    if (image.confidence_png().empty()) continue;
    auto levels = ReadGreyPng(image.confidence_png(), map.image_height, map.image_width);
    if (!levels.ok()) {
      return absl::InternalError("the server's confidence is not a level for each pixel");
    }
    map.confidence = *std::move(levels);
  }
  return response;
}

inference::ModelInferRequest ToWire(const InferRequest& request) {
  inference::ModelInferRequest message;
  message.set_model_name(request.model.name);
  message.set_model_version(request.model.version);
  message.set_id(request.id);
  if (request.priority != 0) {
    (*message.mutable_parameters())["priority"].set_uint64_param(request.priority);
  }
  for (const Tensor& tensor : request.inputs) {
    auto* input = message.add_inputs();
    input->set_name(tensor.name);
    input->set_datatype(tensor.datatype);
    for (int64_t side : tensor.shape) input->add_shape(side);
    message.add_raw_input_contents(tensor.data);
  }
  for (const RequestedOutput& requested : request.outputs) {
    auto* output = message.add_outputs();
    output->set_name(requested.name);
    if (requested.classification > 0) {
      (*output->mutable_parameters())["classification"].set_int64_param(requested.classification);
    }
  }
  return message;
}

absl::StatusOr<InferResponse> FromWire(inference::ModelInferResponse&& message) {
  if (message.outputs_size() != message.raw_output_contents_size()) {
    return absl::InternalError(absl::StrCat("the server named ", message.outputs_size(),
                                            " outputs and sent ",
                                            message.raw_output_contents_size(), " as raw data"));
  }
  InferResponse response;
  response.model = {message.model_name(), message.model_version()};
  response.id = message.id();
  for (int i = 0; i < message.outputs_size(); ++i) {
    const auto& output = message.outputs(i);
    response.outputs.push_back({output.name(),
                                output.datatype(),
                                {output.shape().begin(), output.shape().end()},
                                std::move(*message.mutable_raw_output_contents(i))});
  }
  response.receipt = ReceiptOf(message.parameters());
  return response;
}

void AddMetadata(const inference::ModelMetadataResponse& metadata, ModelInfo& model) {
  for (const auto& tensor : metadata.inputs()) model.inputs.push_back(FromWire(tensor));
  for (const auto& tensor : metadata.outputs()) model.outputs.push_back(FromWire(tensor));
  model.properties.insert(metadata.properties().begin(), metadata.properties().end());
  const auto property = [&](const char* name) {
    const auto found = model.properties.find(name);
    return found == model.properties.end() ? std::string() : found->second;
  };
  model.task = property(kTask);
  model.attention = property(kAttention);
  model.backbone = property(kBackbone);
  model.precision = property(kPrecision);
  model.untrained = property(kUntrained) == "true";
}

ModelStatistics FromWire(const inference::ModelStatistics& message) {
  ModelStatistics statistics;
  statistics.name = message.name();
  statistics.version = message.version();
  statistics.images = message.inference_count();
  statistics.batches = message.execution_count();
  const inference::InferStatistics& sums = message.inference_stats();
  statistics.success = FromWire(sums.success());
  statistics.fail = FromWire(sums.fail());
  statistics.queue = FromWire(sums.queue());
  statistics.compute_input = FromWire(sums.compute_input());
  statistics.compute_infer = FromWire(sums.compute_infer());
  statistics.compute_output = FromWire(sums.compute_output());
  if (message.last_inference() != 0) {
    statistics.last_inference =
        absl::FromUnixMillis(static_cast<int64_t>(message.last_inference()));
  }
  for (const auto& usage : message.memory_usage()) {
    statistics.memory_bytes[usage.type()] += usage.byte_size();
  }
  return statistics;
}

}  // namespace fovea::client
