#include "model_zoo/folder/spec_conversion.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/status.h"
#include "model_zoo/folder/names.h"
#include "model_zoo/folder/shape_buckets.h"
#include "model_zoo/quoted.h"
#include "proto/fovea/v1/model_spec.pb.h"

namespace fovea {
namespace {

constexpr double kMinStd = 1e-6, kMaxStd = 1e6;
constexpr double kMaxTolerance = 1e6;

// To which the sides of shape buckets are rounded: from the pixels to the coarsest map of nearly
// all backbones.
constexpr int64_t kBucketStride = 32;

template <typename T>
absl::Status InRange(const SpecOrigin& origin, const char* field, T value, T low, T high,
                     int index = 0) {
  if (value >= low && value <= high) return absl::OkStatus();
  return origin.Error(field,
                      std::string(field) + " is " + std::to_string(value) +
                          "; it must lie between " + std::to_string(low) + " and " +
                          std::to_string(high),
                      index);
}

// As InRange, for a field where 0 stands for absent.
template <typename T>
absl::Status InRangeOrZero(const SpecOrigin& origin, const char* field, T value, T high) {
  return value == 0 ? absl::OkStatus() : InRange<T>(origin, field, value, 1, high);
}

PreprocessingOverride ToPreprocessing(const v1::Preprocessing& message, const SpecOrigin& origin,
                                      SpecErrors& errors) {
  PreprocessingOverride to;
  to.fast_decode = message.fast_decode();
  if (message.crop_offset() == v1::Preprocessing::FLOOR) {
    to.crop_offset = models::CropOffset::kFloor;
  }
  switch (message.resize_mode()) {
    case v1::Preprocessing::SHORTEST_EDGE:
      to.resize_mode = models::ResizeMode::kShortestEdge;
      break;
    case v1::Preprocessing::SQUASH:
      to.resize_mode = models::ResizeMode::kSquash;
      break;
    case v1::Preprocessing::FIT:
      to.resize_mode = models::ResizeMode::kFit;
      break;
    default:
      break;
  }
  switch (message.interpolation()) {
    case v1::Preprocessing::BILINEAR:
      to.interpolation = models::Interpolation::kBilinear;
      break;
    case v1::Preprocessing::BICUBIC:
      to.interpolation = models::Interpolation::kBicubic;
      break;
    default:
      break;
  }
  if (const double fraction = message.crop_fraction(); fraction != 0) {
    if (!(fraction > 0 && fraction <= 1)) {
      errors.Add(origin.Error("crop_fraction", "crop_fraction must lie in (0, 1]"));
    }
    to.crop_fraction = fraction;
  }
  errors.Add(InRangeOrZero<int64_t>(origin, "shorter_side", message.shorter_side(),
                                    limits::kMaxInputSide));
  errors.Add(
      InRangeOrZero<int64_t>(origin, "longer_side", message.longer_side(), limits::kMaxInputSide));
  if ((message.shorter_side() == 0) != (message.longer_side() == 0) ||
      message.shorter_side() > message.longer_side()) {
    errors.Add(
        origin.Error(message.shorter_side() != 0 ? "shorter_side" : "longer_side",
                     "shorter_side and longer_side are given together, the smaller one first"));
  }
  if (message.shorter_side() != 0) {
    to.shorter_side = message.shorter_side();
    to.longer_side = message.longer_side();
  }
  if (message.mean_size() != message.std_size()) {
    errors.Add(
        origin.Error(message.mean_size() > 0 ? "mean" : "std", "mean and std are given together"));
  }
  if (message.mean_size() == 0 || message.mean_size() != message.std_size()) return to;
  if (message.mean_size() != 3) {
    errors.Add(origin.Error("mean", "mean and std have three numbers: red, green, blue"));
    return to;
  }
  to.mean.emplace();
  to.std.emplace();
  for (int channel = 0; channel < 3; ++channel) {
    const float mean = message.mean(channel), std = message.std(channel);
    if (!(mean >= 0 && mean <= 1)) {
      errors.Add(origin.Error("mean", "mean must lie between 0 and 1: pixels do", channel));
    }
    if (!(std >= kMinStd && std <= kMaxStd)) {
      errors.Add(origin.Error("std", "std must lie between 1e-6 and 1e6", channel));
    }
    (*to.mean)[channel] = mean;
    (*to.std)[channel] = std;
  }
  return to;
}

QueuePolicy ToQueuePolicy(const v1::QueuePolicy& message, const SpecOrigin& origin,
                          SpecErrors& errors) {
  QueuePolicy to;
  if (message.timeout_action() == v1::QueuePolicy::DELAY) {
    to.timeout_action = TimeoutAction::kDelay;
  }
  errors.Add(InRange<uint64_t>(origin, "default_timeout_microseconds",
                               message.default_timeout_microseconds(), 0,
                               limits::kMaxTimeoutSeconds * 1'000'000));
  to.default_timeout_us = static_cast<int64_t>(message.default_timeout_microseconds());
  if (message.has_allow_timeout_override()) {
    to.allow_timeout_override = message.allow_timeout_override();
  }
  errors.Add(InRangeOrZero<uint32_t>(origin, "max_queue_size", message.max_queue_size(),
                                     limits::kMaxQueueSize));
  if (message.max_queue_size() != 0) to.max_queue_size = static_cast<int>(message.max_queue_size());
  return to;
}

BatchingOptions ToBatching(const v1::DynamicBatching& message, const SpecOrigin& origin,
                           int max_batch_size, SpecErrors& errors) {
  BatchingOptions to;
  for (int i = 0; i < message.preferred_batch_size_size(); ++i) {
    errors.Add(InRange(origin, "preferred_batch_size", message.preferred_batch_size(i), 1,
                       max_batch_size, i));
    to.preferred_batch_sizes.push_back(message.preferred_batch_size(i));
  }
  std::vector<int>& sizes = to.preferred_batch_sizes;
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());

  errors.Add(InRange<uint64_t>(origin, "max_queue_delay_microseconds",
                               message.max_queue_delay_microseconds(), 0,
                               limits::kMaxQueueDelayMicroseconds));
  to.max_queue_delay_us = static_cast<int64_t>(message.max_queue_delay_microseconds());

  errors.Add(InRange<uint64_t>(origin, "priority_levels", message.priority_levels(), 0,
                               limits::kMaxPriorityLevels));
  to.priority_levels = static_cast<int>(message.priority_levels());
  if (message.default_priority_level() == 0) {
    to.default_priority_level = (to.priority_levels + 1) / 2;
  } else if (to.priority_levels == 0) {
    errors.Add(origin.Error("default_priority_level",
                            "default_priority_level means nothing without priority_levels"));
  } else {
    errors.Add(InRange<uint64_t>(origin, "default_priority_level", message.default_priority_level(),
                                 1, message.priority_levels()));
    to.default_priority_level = static_cast<int>(message.default_priority_level());
  }

  to.default_queue_policy =
      ToQueuePolicy(message.default_queue_policy(), origin.In("default_queue_policy"), errors);
  for (const auto& [level, policy] : message.priority_queue_policy()) {
    if (level < 1 || level > message.priority_levels()) {
      errors.Add(origin.Error("priority_queue_policy",
                              "priority_queue_policy names level " + std::to_string(level) +
                                  "; there are " + std::to_string(message.priority_levels())));
      continue;
    }
    to.priority_queue_policy[static_cast<int>(level)] =
        ToQueuePolicy(policy, origin.InMap("priority_queue_policy"), errors);
  }
  return to;
}

models::InstanceGroup ToInstances(const v1::InstanceGroup& message, const SpecOrigin& origin,
                                  SpecErrors& errors) {
  models::InstanceGroup to;
  errors.Add(InRangeOrZero(origin, "count", message.count(), limits::kMaxInstances));
  errors.Add(InRangeOrZero(origin, "threads", message.threads(), limits::kMaxThreadsPerInstance));
  to.count = message.count();
  to.threads = message.threads();
  errors.Add(InRangeOrZero<uint32_t>(origin.In("rate_limiter"), "priority",
                                     message.rate_limiter().priority(),
                                     limits::kMaxRateLimiterPriority));
  to.rate_limiter_priority = std::max<int>(1, static_cast<int>(message.rate_limiter().priority()));
  switch (message.kind()) {
    case v1::InstanceGroup::KIND_CPU:
      to.kind = models::InstanceKind::kCpu;
      break;
    case v1::InstanceGroup::KIND_GPU:
      to.kind = models::InstanceKind::kGpu;
      break;
    default:
      to.kind = models::InstanceKind::kAuto;
  }
  if (message.gpus_size() > 0 && to.kind != models::InstanceKind::kGpu) {
    errors.Add(origin.Error("gpus", "gpus mean nothing without KIND_GPU"));
  }
  for (int i = 0; i < message.gpus_size(); ++i) {
    errors.Add(InRange(origin, "gpus", message.gpus(i), 0, limits::kMaxGpus - 1, i));
    to.gpus.push_back(message.gpus(i));
  }
  std::sort(to.gpus.begin(), to.gpus.end());
  if (std::adjacent_find(to.gpus.begin(), to.gpus.end()) != to.gpus.end()) {
    errors.Add(origin.Error("gpus", "gpus name one GPU twice"));
  }
  return to;
}

VersionPolicy ToVersionPolicy(const v1::VersionPolicy& message, const SpecOrigin& origin,
                              SpecErrors& errors) {
  VersionPolicy to;
  switch (message.policy_case()) {
    case v1::VersionPolicy::kAll:
      to.kind = VersionPolicy::Kind::kAll;
      break;
    case v1::VersionPolicy::kSpecific: {
      to.kind = VersionPolicy::Kind::kSpecific;
      const auto& versions = message.specific().versions();
      const SpecOrigin at = origin.In("specific");
      if (versions.empty() || versions.size() > limits::kMaxVersions) {
        errors.Add(at.Error("versions", "versions must list between 1 and " +
                                            std::to_string(limits::kMaxVersions) + " of them"));
      }
      for (int i = 0; i < versions.size(); ++i) {
        if (versions[i] < 1) errors.Add(at.Error("versions", "a version is a positive number", i));
      }
      to.specific.assign(versions.begin(), versions.end());
      std::sort(to.specific.begin(), to.specific.end());
      to.specific.erase(std::unique(to.specific.begin(), to.specific.end()), to.specific.end());
      break;
    }
    case v1::VersionPolicy::kLatest:
      errors.Add(InRangeOrZero<uint32_t>(origin.In("latest"), "num_versions",
                                         message.latest().num_versions(), limits::kMaxVersions));
      to.latest = std::max<int>(1, static_cast<int>(message.latest().num_versions()));
      break;
    case v1::VersionPolicy::POLICY_NOT_SET:
      break;
  }
  return to;
}

std::map<std::string, int64_t> ToVersionLabels(const v1::ModelSpec& message,
                                               const SpecOrigin& origin, SpecErrors& errors) {
  constexpr const char* kField = "version_labels";
  if (message.version_labels_size() > limits::kMaxVersionLabels) {
    errors.Add(origin.Error(
        kField, "more than " + std::to_string(limits::kMaxVersionLabels) + " version_labels"));
  }
  std::map<std::string, int64_t> labels;
  int index = 0;
  for (const v1::VersionLabel& label : message.version_labels()) {
    if (!IsVersionLabel(label.key())) {
      errors.Add(origin.Error(kField,
                              "a version's label begins with a letter and has up to 128 of "
                              "the characters A-Z a-z 0-9 . _ -",
                              index));
    } else if (!labels.emplace(label.key(), label.value()).second) {
      errors.Add(origin.Error(kField, "two version_labels are called " + label.key(), index));
    }
    if (label.value() < 1) {
      errors.Add(origin.Error(kField, "a version is a positive number", index));
    }
    ++index;
  }
  return labels;
}

CanarySpec ToCanary(const v1::Canary& message, const SpecOrigin& origin, SpecErrors& errors) {
  // A file of the folder itself: no way out of it, and none of its folders.
  const auto check_file = [&](const char* field, const std::string& name) {
    if (IsModelName(name)) return;
    errors.Add(origin.Error(field, std::string(field) +
                                       " is not the name of a file: 1 to 128 of the characters "
                                       "A-Z a-z 0-9 . _ -"));
  };
  CanarySpec to{.input = message.input(),
                .top_class = message.top_class(),
                .output_file = message.output_file(),
                .output_name = message.output_name()};
  check_file("input", to.input);
  if (message.expected_case() == v1::Canary::EXPECTED_NOT_SET ||
      (to.top_class.empty() && to.output_file.empty())) {
    errors.Add(origin.Error("input", "a canary says what is expected: top_class or output_file"));
  }
  if (message.expected_case() == v1::Canary::kOutputFile) {
    check_file("output_file", to.output_file);
  } else if (!to.output_name.empty() || message.has_absolute_tolerance() ||
             message.has_relative_tolerance()) {
    errors.Add(
        origin.Error("input", "output_name and tolerances mean nothing without output_file"));
  }
  const auto tolerance = [&](const char* field, double value, double* tolerance) {
    if (value >= 0 && value <= kMaxTolerance) {
      *tolerance = value;
    } else {
      errors.Add(origin.Error(field, std::string(field) + " must lie between 0 and 1e6"));
    }
  };
  if (message.has_absolute_tolerance()) {
    tolerance("absolute_tolerance", message.absolute_tolerance(), &to.absolute_tolerance);
  }
  if (message.has_relative_tolerance()) {
    tolerance("relative_tolerance", message.relative_tolerance(), &to.relative_tolerance);
  }
  return to;
}

std::vector<models::ImageSize> ToFurtherSizes(const v1::ModelSpec& message,
                                              const SpecOrigin& origin, SpecErrors& errors) {
  constexpr const char* kField = "further_image_sizes";
  if (message.further_image_sizes_size() > static_cast<int>(models::kMaxFurtherSizes)) {
    errors.Add(origin.Error(kField, std::string(kField) + " lists more than " +
                                        std::to_string(models::kMaxFurtherSizes) + " sizes"));
  }
  std::vector<models::ImageSize> sizes;
  for (const v1::ImageSize& size : message.further_image_sizes()) {
    const int index = static_cast<int>(sizes.size());
    for (const int64_t side : {size.height(), size.width()}) {
      errors.Add(InRange<int64_t>(origin, kField, side, 1, limits::kMaxInputSide, index));
    }
    sizes.push_back({size.height(), size.width()});
  }
  return sizes;
}

models::VitSizes ToVitSizes(const v1::VitSizes& message, const SpecOrigin& origin,
                            SpecErrors& errors) {
  using Sizes = models::VitSizes;
  errors.Add(InRangeOrZero(origin, "depth", message.depth(), Sizes::kMaxDepth));
  errors.Add(InRangeOrZero(origin, "width", message.width(), Sizes::kMaxWidth));
  errors.Add(InRangeOrZero(origin, "heads", message.heads(), Sizes::kMaxWidth));
  errors.Add(InRangeOrZero(origin, "patch_size", message.patch_size(), limits::kMaxInputSide));
  errors.Add(InRangeOrZero(origin, "mlp_width", message.mlp_width(), Sizes::kMaxMlpWidth));
  return Sizes{.depth = message.depth(),
               .width = message.width(),
               .heads = message.heads(),
               .patch = message.patch_size(),
               .mlp_width = message.mlp_width()};
}

models::DetectionOptions ToDetection(const v1::Head& message, const SpecOrigin& origin,
                                     SpecErrors& errors) {
  models::DetectionOptions to;
  if (message.conventions() == v1::Head::MMDETECTION) {
    to.conventions = models::Conventions::kMmdetection;
  }
  if (message.has_score_threshold()) to.score_threshold = message.score_threshold();
  if (!(to.score_threshold >= 0 && to.score_threshold < 1)) {
    errors.Add(origin.Error("score_threshold", "score_threshold must lie in [0, 1)"));
  }
  if (message.has_nms_iou()) to.nms_iou = message.nms_iou();
  if (!(to.nms_iou >= 0 && to.nms_iou <= 1)) {
    errors.Add(origin.Error("nms_iou", "nms_iou must lie in [0, 1]"));
  }
  errors.Add(InRangeOrZero<int64_t>(origin, "detections_per_image", message.detections_per_image(),
                                    limits::kMaxDetections));
  to.detections_per_image = message.detections_per_image();
  return to;
}

// Whether pictures are to be fitted into sizes that follow from their sides: where none is listed.
bool MakesBuckets(const ModelSpec& spec) {
  const bool classifies = spec.description.task == models::Task::kClassification;
  const bool fits = spec.preprocessing.resize_mode
                        ? *spec.preprocessing.resize_mode == models::ResizeMode::kFit
                        : !classifies;
  const bool has_sides = !classifies || spec.preprocessing.shorter_side.has_value();
  return fits && has_sides && spec.description.image_height == 0 &&
         spec.description.further_sizes.empty();
}

void MakeBuckets(ModelSpec& spec) {
  const models::PictureSides usual = models::UsualSides(spec.description.task);
  std::vector<models::ImageSize> sizes =
      models::ShapeBuckets(spec.preprocessing.shorter_side.value_or(usual.shorter),
                           spec.preprocessing.longer_side.value_or(usual.longer), kBucketStride);
  spec.description.image_height = sizes.front().height;
  spec.description.image_width = sizes.front().width;
  spec.description.further_sizes.assign(sizes.begin() + 1, sizes.end());
}

models::Precision ToPrecision(v1::ModelSpec::Precision precision) {
  switch (precision) {
    case v1::ModelSpec::BF16:
      return models::Precision::kBf16;
    case v1::ModelSpec::FP16:
      return models::Precision::kFp16;
    case v1::ModelSpec::INT8:
      return models::Precision::kInt8;
    default:
      return models::Precision::kFp32;
  }
}

models::ModelDescription ToDescription(const v1::ModelSpec& message, const SpecOrigin& origin,
                                       std::string_view folder, SpecErrors& errors) {
  models::ModelDescription to;
  if (message.spec_version() != 1) {
    errors.Add(origin.Error("spec_version", "spec_version must be 1"));
  }
  to.name = folder;
  if (!message.name().empty() && message.name() != folder) {
    errors.Add(origin.Error("name", "name is " + models::Quoted(message.name()) +
                                        ", but the folder is called " + models::Quoted(folder)));
  }
  if (message.backbone().empty()) {
    errors.Add(origin.Error("backbone", "backbone is missing"));
  } else if (!IsModelName(message.backbone())) {
    errors.Add(origin.Error("backbone", "backbone is not the name of one"));
  }
  to.backbone = message.backbone();
  if (message.attention_size() > limits::kMaxAttentionTexts) {
    errors.Add(origin.Error("attention", "more attentions than any backbone has stages"));
  }
  for (int i = 0; i < message.attention_size(); ++i) {
    const std::string& text = message.attention(i);
    if (text.empty() || text.size() > limits::kMaxAttentionTextBytes) {
      errors.Add(origin.Error("attention", "attention must be 1 to 256 characters long", i));
    }
    to.attention.push_back(text);
  }
  switch (message.task()) {
    case v1::ModelSpec::DETECTION:
      to.task = models::Task::kDetection;
      break;
    case v1::ModelSpec::SEGMENTATION:
      to.task = models::Task::kSegmentation;
      break;
    default:
      to.task = models::Task::kClassification;
  }
  if (!message.head().name().empty() && !IsModelName(message.head().name())) {
    errors.Add(origin.In("head").Error("name", "head is not the name of one"));
  }
  to.head = message.head().name();
  to.detection = ToDetection(message.head(), origin.In("head"), errors);
  errors.Add(InRangeOrZero<int64_t>(origin.In("head"), "channels", message.head().channels(),
                                    models::kMostHeadChannels));
  to.head_channels = message.head().channels();
  errors.Add(
      InRangeOrZero<int64_t>(origin, "num_classes", message.num_classes(), limits::kMaxClasses));
  to.num_classes = message.num_classes();
  to.precision = ToPrecision(message.precision());
  errors.Add(InRangeOrZero<int64_t>(origin, "image_height", message.image_height(),
                                    limits::kMaxInputSide));
  errors.Add(
      InRangeOrZero<int64_t>(origin, "image_width", message.image_width(), limits::kMaxInputSide));
  if ((message.image_height() == 0) != (message.image_width() == 0)) {
    errors.Add(origin.Error(message.image_height() != 0 ? "image_height" : "image_width",
                            "image_height and image_width are given together"));
  }
  to.image_height = message.image_height();
  to.image_width = message.image_width();
  to.further_sizes = ToFurtherSizes(message, origin, errors);
  if (message.has_vit()) {
    to.vit = ToVitSizes(message.vit(), origin.In("vit"), errors);
  }
  if (message.classifier_activation() == v1::ModelSpec::SIGMOID) {
    to.classifier_activation = models::ClassifierActivation::kSigmoid;
    if (to.task != models::Task::kClassification) {
      errors.Add(origin.Error("classifier_activation",
                              "classifier_activation is only for the task CLASSIFICATION"));
    }
  }
  if (message.window_padding() == v1::ModelSpec::ROLL_THEN_PAD) {
    to.window_padding = models::WindowPadding::kRollThenPad;
  }
  if (message.has_random_weights()) to.random_weights_seed = message.random_weights().seed();
  return to;
}

}  // namespace

absl::StatusOr<ModelSpec> ToModelSpec(const v1::ModelSpec& message, const SpecOrigin& origin,
                                      std::string_view folder, SpecErrors& errors) {
  ModelSpec to;
  to.description = ToDescription(message, origin, folder, errors);
  if (message.has_preprocessing()) {
    to.preprocessing = ToPreprocessing(message.preprocessing(), origin.In("preprocessing"), errors);
  }
  if (message.weights_case() == v1::ModelSpec::kWeightsOf) {
    if (!IsModelName(message.weights_of())) {
      errors.Add(origin.Error("weights_of", "weights_of is not the name of a model"));
    }
    to.weights_of = message.weights_of();
  }
  switch (message.advertised_input()) {
    case v1::ModelSpec::IMAGE:
      to.advertised_input = AdvertisedInput::kImage;
      break;
    case v1::ModelSpec::IMAGE_RGB:
      to.advertised_input = AdvertisedInput::kImageRgb;
      break;
    default:
      to.advertised_input = AdvertisedInput::kPixelValues;
  }
  to.allow_non_finite = message.has_allow_non_finite()
                            ? message.allow_non_finite()
                            : to.advertised_input == AdvertisedInput::kPixelValues;
  to.untrained = message.untrained() || message.has_random_weights();
  if (errors.empty() && MakesBuckets(to)) {
    MakeBuckets(to);
    to.max_batch_size = kUsualBatchSizeOfBuckets;
  }
  if (message.has_max_batch_size()) {
    errors.Add(
        InRange(origin, "max_batch_size", message.max_batch_size(), 1, limits::kMaxBatchSize));
    // What is no size bounds the preferred ones no closer than any.
    const bool usable = message.max_batch_size() >= 1;
    to.max_batch_size = usable ? message.max_batch_size() : limits::kMaxBatchSize;
  }
  if (message.has_dynamic_batching()) {
    to.batching = ToBatching(message.dynamic_batching(), origin.In("dynamic_batching"),
                             to.max_batch_size, errors);
  }
  if (message.has_instance_group()) {
    const v1::InstanceGroup& group = message.instance_group();
    const SpecOrigin at = origin.In("instance_group");
    to.instances = ToInstances(group, at, errors);
  }
  if (message.has_version_policy()) {
    to.version_policy =
        ToVersionPolicy(message.version_policy(), origin.In("version_policy"), errors);
  }
  to.version_labels = ToVersionLabels(message, origin, errors);
  if (message.has_canary()) {
    to.canary = ToCanary(message.canary(), origin.In("canary"), errors);
  }
  FOVEA_RETURN_IF_ERROR(errors.first());
  return to;
}

}  // namespace fovea
