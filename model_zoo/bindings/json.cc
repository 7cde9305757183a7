#include "model_zoo/bindings/json.h"

#include <c10/util/Exception.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace fovea::models {
namespace {

using nlohmann::json;

[[noreturn]] void Refuse(const std::string& why) {
  C10_THROW_ERROR(ValueError, "the description of a model: " + why);
}

int64_t Count(const std::string& name, const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
    Refuse(name + " is a whole number of at least 0");
  }
  return value.get<int64_t>();
}

std::string Text(const std::string& name, const json& value) {
  if (!value.is_string()) {
    Refuse(name + " is text");
  }
  return value.get<std::string>();
}

std::optional<Task> TaskOf(const json& value) {
  for (const Task task : kTasks) {
    if (value == NamesOf(task).in_description) return task;
  }
  return std::nullopt;
}

DetectionOptions DetectionFromJson(const json& object) {
  DetectionOptions options;
  for (const auto& [name, value] : object.items()) {
    if (name == "conventions" && (value == "TORCHVISION" || value == "MMDETECTION")) {
      options.conventions =
          value == "TORCHVISION" ? Conventions::kTorchvision : Conventions::kMmdetection;
    } else if (name == "score_threshold" && value.is_number()) {
      options.score_threshold = value.get<double>();
    } else if (name == "nms_iou" && value.is_number()) {
      options.nms_iou = value.get<double>();
    } else if (name == "detections_per_image") {
      options.detections_per_image = Count(name, value);
    } else {
      Refuse("'" + name + "' of detection is unknown, or has an unknown value");
    }
  }
  return options;
}

VitSizes VitFromJson(const json& object) {
  VitSizes sizes;
  const std::map<std::string_view, int64_t*> fields = {{"depth", &sizes.depth},
                                                       {"width", &sizes.width},
                                                       {"heads", &sizes.heads},
                                                       {"patch_size", &sizes.patch},
                                                       {"mlp_width", &sizes.mlp_width}};
  for (const auto& [name, value] : object.items()) {
    const auto field = fields.find(name);
    if (field == fields.end()) Refuse("'" + name + "' of vit is unknown");
    *field->second = Count(name, value);
  }
  return sizes;
}

const char* ResizeModeName(ResizeMode mode) {
  switch (mode) {
    case ResizeMode::kSquash:
      return "SQUASH";
    case ResizeMode::kFit:
      return "FIT";
    case ResizeMode::kShortestEdge:
      break;
  }
  return "SHORTEST_EDGE";
}

std::optional<Precision> PrecisionOf(const json& name) {
  for (const Precision precision : kPrecisions) {
    if (name == NameOf(precision)) return precision;
  }
  return std::nullopt;
}

const char* ConventionsName(Conventions conventions) {
  return conventions == Conventions::kTorchvision ? "TORCHVISION" : "MMDETECTION";
}

constexpr const char* kSoftmax = "SOFTMAX";
constexpr const char* kSigmoid = "SIGMOID";
constexpr const char* kPadThenRoll = "PAD_THEN_ROLL";
constexpr const char* kRollThenPad = "ROLL_THEN_PAD";

json ToJson(const Preprocessing& preprocessing) {
  return {{"resize_mode", ResizeModeName(preprocessing.resize_mode)},
          {"interpolation",
           preprocessing.interpolation == Interpolation::kBicubic ? "BICUBIC" : "BILINEAR"},
          {"crop_fraction", preprocessing.crop_fraction},
          {"crop_offset", preprocessing.crop_offset == CropOffset::kFloor ? "FLOOR" : "NEAREST"},
          {"shorter_side", preprocessing.shorter_side},
          {"longer_side", preprocessing.longer_side},
          {"fast_decode", preprocessing.fast_decode},
          {"mean", preprocessing.mean},
          {"std", preprocessing.std}};
}

json ToJson(const std::vector<ImageSize>& sizes) {
  json array = json::array();
  for (const ImageSize& size : sizes) array.push_back(json::array({size.height, size.width}));
  return array;
}

const char* TypeName(ElementType type) {
  switch (type) {
    case ElementType::kByte:
      return "UINT8";
    case ElementType::kInt64:
      return "INT64";
    case ElementType::kFloat:
      break;
  }
  return "FP32";
}

}  // namespace

ModelDescription DescriptionFromJson(std::string_view text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    Refuse("not a JSON object");
  }
  ModelDescription description;
  for (const auto& [name, value] : object.items()) {
    if (name == "backbone") {
      description.backbone = Text(name, value);
    } else if (name == "attention" && value.is_array()) {
      for (const json& one : value) {
        description.attention.push_back(Text(name, one));
      }
    } else if (name == "attention") {
      description.attention = {Text(name, value)};
    } else if (name == "head") {
      description.head = Text(name, value);
    } else if (name == "task" && TaskOf(value)) {
      description.task = *TaskOf(value);
    } else if (name == "detection" && value.is_object()) {
      description.detection = DetectionFromJson(value);
    } else if (name == "vit" && value.is_object()) {
      description.vit = VitFromJson(value);
    } else if (name == "head_channels") {
      description.head_channels = Count(name, value);
    } else if (name == "num_classes") {
      description.num_classes = Count(name, value);
    } else if (name == "image_height") {
      description.image_height = Count(name, value);
    } else if (name == "image_width") {
      description.image_width = Count(name, value);
    } else if (name == "further_sizes" && value.is_array()) {
      for (const json& size : value) {
        if (!size.is_array() || size.size() != 2) Refuse(name + " is a list of [height, width]");
        description.further_sizes.push_back({Count(name, size[0]), Count(name, size[1])});
      }
    } else if (name == "classifier_activation" && (value == kSoftmax || value == kSigmoid)) {
      description.classifier_activation =
          value == kSigmoid ? ClassifierActivation::kSigmoid : ClassifierActivation::kSoftmax;
    } else if (name == "window_padding" && (value == kPadThenRoll || value == kRollThenPad)) {
      description.window_padding =
          value == kRollThenPad ? WindowPadding::kRollThenPad : WindowPadding::kPadThenRoll;
    } else if (name == "precision" && PrecisionOf(value)) {
      description.precision = *PrecisionOf(value);
    } else if (name == "random_weights_seed" && value.is_number_unsigned()) {
      description.random_weights_seed = value.get<uint64_t>();
    } else if (name == "weights") {
      description.weights = Text(name, value);
    } else {
      Refuse("'" + name + "' is unknown, or has an unknown value");
    }
  }
  if (description.backbone.empty()) {
    Refuse("backbone is missing");
  }
  return description;
}

std::string DescriptionToJson(const ModelDescription& description) {
  json object = {
      {"backbone", description.backbone},
      {"attention", description.attention},
      {"task", NamesOf(description.task).in_description},
      {"head", description.head},
      {"detection",
       {{"conventions", ConventionsName(description.detection.conventions)},
        {"score_threshold", description.detection.score_threshold},
        {"nms_iou", description.detection.nms_iou},
        {"detections_per_image", description.detection.detections_per_image}}},
      {"head_channels", description.head_channels},
      {"image_height", description.image_height},
      {"image_width", description.image_width},
      {"further_sizes", ToJson(description.further_sizes)},
      {"classifier_activation",
       description.classifier_activation == ClassifierActivation::kSigmoid ? kSigmoid : kSoftmax},
      {"window_padding",
       description.window_padding == WindowPadding::kRollThenPad ? kRollThenPad : kPadThenRoll},
      {"precision", NameOf(description.precision)}};
  // kNoClasses has no spelling there: a description on disk cannot say it either.
  if (description.num_classes >= 0) object["num_classes"] = description.num_classes;
  if (description.vit) {
    const VitSizes& vit = *description.vit;
    object["vit"] = {{"depth", vit.depth},
                     {"width", vit.width},
                     {"heads", vit.heads},
                     {"patch_size", vit.patch},
                     {"mlp_width", vit.mlp_width}};
  }
  if (description.random_weights_seed) {
    object["random_weights_seed"] = *description.random_weights_seed;
  }
  if (!description.weights.empty()) object["weights"] = description.weights.string();
  return object.dump();
}

Preprocessing PreprocessingFromJson(std::string_view text) try {
  const json object = json::parse(text);
  Preprocessing preprocessing;
  object.at("crop_fraction").get_to(preprocessing.crop_fraction);
  object.at("shorter_side").get_to(preprocessing.shorter_side);
  object.at("longer_side").get_to(preprocessing.longer_side);
  object.at("fast_decode").get_to(preprocessing.fast_decode);
  if (object.at("crop_offset") == "FLOOR") preprocessing.crop_offset = CropOffset::kFloor;
  object.at("mean").get_to(preprocessing.mean);
  object.at("std").get_to(preprocessing.std);
  for (const ResizeMode mode : {ResizeMode::kShortestEdge, ResizeMode::kSquash, ResizeMode::kFit}) {
    for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
      preprocessing.resize_mode = mode;
      preprocessing.interpolation = interpolation;
      if (ToJson(preprocessing) == object) return preprocessing;
    }
  }
  C10_THROW_ERROR(ValueError, "the preprocessing of a model has an unknown value or field");
} catch (const json::exception& error) {
  C10_THROW_ERROR(ValueError, std::string("the preprocessing of a model: ") + error.what());
}

std::string PreprocessingToJson(const Preprocessing& preprocessing) {
  return ToJson(preprocessing).dump();
}

std::string FactsToJson(const ModelInfo& info, int64_t weight_bytes) {
  json outputs = json::array();
  for (const ModelInfo::Output& output : info.outputs) {
    outputs.push_back(
        {{"name", output.name}, {"shape", output.shape}, {"type", TypeName(output.type)}});
  }
  json features = json::array();
  for (const ModelInfo::FeatureMap& map : info.features) {
    features.push_back({{"channels", map.channels}, {"stride", map.stride}});
  }
  return json{
      {"backbone", info.backbone},
      {"attention", info.attention},
      {"image_height", info.image_height},
      {"image_width", info.image_width},
      {"further_sizes", ToJson(info.further_sizes)},
      {"num_classes", info.num_classes},
      {"parameters", info.parameters},
      {"tokens", info.tokens},
      {"pixel_input", info.pixel_input == PixelInput::kBytes ? "BYTES" : "NORMALISED"},
      {"preprocessing", ToJson(info.preprocessing)},
      {"outputs", outputs},
      {"features", features},
      {"weight_bytes", weight_bytes},
  }
      .dump();
}

}  // namespace fovea::models
