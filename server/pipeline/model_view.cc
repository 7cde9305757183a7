#include "server/pipeline/model_view.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/admission/request_rules.h"
#include "server/executor/output_type.h"
#include "server/postprocess/segmentation.h"

namespace fovea {
namespace {

VisionTask TaskOf(models::Task task) {
  switch (task) {
    case models::Task::kDetection:
      return VisionTask::kDetection;
    case models::Task::kSegmentation:
      return VisionTask::kSegmentation;
    case models::Task::kClassification:
      break;
  }
  return VisionTask::kClassification;
}

// "pixel_values FP32 [-1,3,224,224]": one of the inputs that a request may use.
std::string InputText(const TensorDescription& input) {
  return absl::StrCat(input.name, " ", std::string(DataTypeName(input.type)), " [",
                      absl::StrJoin(input.shape, ","), "]");
}

// Every way to hand over an image; a model that takes bytes as they are has no normalised pixels.
std::vector<TensorDescription> AcceptedInputs(const models::ModelInfo& info) {
  std::vector<TensorDescription> inputs;
  if (info.pixel_input == models::PixelInput::kNormalised) {
    TensorDescription& pixels = inputs.emplace_back(
        TensorDescription{std::string(kPixelValuesInput), DataType::kFp32, {-1, 3, -1, -1}});
    if (info.further_sizes.empty()) pixels.shape = {-1, 3, info.image_height, info.image_width};
  }
  inputs.push_back({std::string(kImageInput), DataType::kBytes, {-1, 1}});
  inputs.push_back({std::string(kImageRgbInput), DataType::kUint8, {-1, -1, -1, 3}});
  return inputs;
}

// Generic clients send every input that is listed, and need its size: one is listed, with the
// model's own.
TensorDescription AdvertisedTensor(AdvertisedInput advertised, const models::ModelInfo& info) {
  switch (advertised) {
    case AdvertisedInput::kPixelValues:
      if (info.pixel_input == models::PixelInput::kBytes) break;
      return {std::string(kPixelValuesInput),
              DataType::kFp32,
              {-1, 3, info.image_height, info.image_width}};
    case AdvertisedInput::kImage:
      return {std::string(kImageInput), DataType::kBytes, {-1, 1}};
    case AdvertisedInput::kImageRgb:
      break;
  }
  return {
      std::string(kImageRgbInput), DataType::kUint8, {-1, info.image_height, info.image_width, 3}};
}

}  // namespace

ModelView DescribeServedModel(const VersionToLoad& model, const models::ModelInfo& info,
                              std::string_view device) {
  const ModelSpec& spec = model.spec;
  ModelView view;
  view.name = model.name;
  view.version = absl::StrCat(model.version);
  view.backbone = info.backbone;
  view.attention = info.attention;
  view.task = TaskOf(spec.description.task);
  view.precision = models::NameOf(spec.description.precision);
  view.inputs = {AdvertisedTensor(spec.advertised_input, info)};
  view.accepted_inputs = AcceptedInputs(info);
  for (const models::ModelInfo::Output& output : info.outputs) {
    TensorDescription& described = view.outputs.emplace_back();
    described.name = output.name;
    described.type = OutputType(output);
    described.shape = {-1};
    described.shape.insert(described.shape.end(), output.shape.begin(), output.shape.end());
  }
  if (view.task == VisionTask::kSegmentation) {
    view.outputs.insert(view.outputs.begin(), ClassMapTensor(info.num_classes));
  }
  view.labels = std::make_shared<const std::vector<std::string>>(model.labels);
  for (const std::string& label : model.labels) {
    view.longest_label = std::max(view.longest_label, label.size());
  }
  for (const auto& [height, width] : info.sizes()) view.sizes.push_back({height, width});
  view.num_classes = info.num_classes;
  view.mask_pasting = spec.description.detection.conventions == models::Conventions::kMmdetection
                          ? MaskPasting::kMmdetection
                          : MaskPasting::kTorchvision;
  view.sigmoid = spec.description.classifier_activation == models::ClassifierActivation::kSigmoid;
  view.pixel_bytes = info.pixel_input == models::PixelInput::kBytes;
  view.allow_non_finite = spec.allow_non_finite;
  view.untrained = spec.untrained;
  view.max_batch_size = spec.max_batch_size;
  view.preferred_batch_sizes = spec.batching.preferred_batch_sizes;
  view.max_queue_delay_us = spec.batching.max_queue_delay_us;
  view.default_queue_policy = spec.batching.default_queue_policy;
  view.priority_queue_policy = spec.batching.priority_queue_policy;
  view.priority_levels = spec.batching.priority_levels;
  view.default_priority_level = spec.batching.default_priority_level;
  view.instances = spec.instances.count;
  view.rate_limiter_priority = spec.instances.rate_limiter_priority;
  view.device = device;
  view.properties = {
      {"fovea.attention", view.attention},
      {"fovea.backbone", view.backbone},
      {"fovea.inputs", absl::StrJoin(view.accepted_inputs, "; ",
                                     [](std::string* out, const TensorDescription& input) {
                                       out->append(InputText(input));
                                     })},
      {"fovea.parameters", absl::StrCat(info.parameters)},
      {"fovea.precision", view.precision},
      {"fovea.task", std::string(VisionTaskName(view.task))},
      {"fovea.tokens", absl::StrCat(info.tokens)},
  };
  if (view.sizes.size() > 1) {
    view.properties["fovea.sizes"] = absl::StrJoin(
        view.sizes, "; ",
        [](std::string* out, const ImageSize& size) { out->append(ImageSizeText(size)); });
  }
  if (spec.preprocessing.fast_decode) view.properties["fovea.fast_decode"] = "true";
  if (view.sigmoid) view.properties["fovea.classifier_activation"] = "sigmoid";
  if (view.untrained) view.properties["fovea.untrained"] = "true";
  return view;
}

}  // namespace fovea
