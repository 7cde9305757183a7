// What a model is, in plain data: folder/ fills it from a model folder, registry/ builds from it.
// Includes neither torch nor protobuf.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fovea::models {

enum class Task { kClassification, kDetection, kSegmentation };
inline constexpr Task kTasks[] = {Task::kClassification, Task::kDetection, Task::kSegmentation};

// As commands and errors name it, and as a description writes it.
struct TaskNames {
  const char* in_words;
  const char* in_description;
};
constexpr TaskNames NamesOf(Task task) {
  switch (task) {
    case Task::kDetection:
      return {"detection", "DETECTION"};
    case Task::kSegmentation:
      return {"segmentation", "SEGMENTATION"};
    case Task::kClassification:
      break;
  }
  return {"classification", "CLASSIFICATION"};
}

// FP16 runs on GPUs only, INT8 on CPUs only: linear layers multiply 8-bit integers, all else is as
// with BF16, or as with FP32 where the processor does not multiply that.
enum class Precision { kFp32, kBf16, kFp16, kInt8 };
inline constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kBf16, Precision::kFp16,
                                            Precision::kInt8};

// As a description writes it.
constexpr const char* NameOf(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return "BF16";
    case Precision::kFp16:
      return "FP16";
    case Precision::kInt8:
      return "INT8";
    case Precision::kFp32:
      break;
  }
  return "FP32";
}

// What a backbone takes: normalised pixels as FP32 [N, 3, H, W], or the bytes of the image as UINT8
// [N, H, W, 3].
enum class PixelInput { kNormalised, kBytes };

enum class ResizeMode {
  kShortestEdge,  // the shorter side to floor(target / crop_fraction), then the centre crop (timm's
                  // "center")
  kSquash,        // each side to floor(target / crop_fraction), whatever the aspect ratio, then the
                  // centre crop
  kFit,  // the whole image at its aspect ratio, in the upper left corner of the smallest of
         // the model's sizes that holds it; the rest is filled up with zeros, normalised
};
enum class Interpolation { kBilinear, kBicubic };
// Rounding of a centre crop's offset: halves to the even pixel (timm, torchvision), or down
// (transformers).
enum class CropOffset { kNearest, kFloor };

// Of pictures that are not cut, where nothing else is said: as detectors are published on COCO (Lin
// et al., CVPR 2017) and segmenters on ADE20K (mmsegmentation).
struct PictureSides {
  int64_t shorter = 0;
  int64_t longer = 0;  // at most
};
constexpr PictureSides UsualSides(Task task) {
  return task == Task::kSegmentation ? PictureSides{512, 2048} : PictureSides{800, 1333};
}

// From an image's bytes to the model's pixels. Means and deviations are of pixels in [0, 1], in RGB
// order.
struct Preprocessing {
  ResizeMode resize_mode = ResizeMode::kShortestEdge;
  Interpolation interpolation = Interpolation::kBicubic;
  double crop_fraction = 0.9;  // in (0, 1]; not with kFit
  CropOffset crop_offset = CropOffset::kNearest;
  // kFit: the shorter side becomes shorter_side, or as much less as keeps the longer one from being
  // more than longer_side, or than what the model's sizes hold. 0: as large as they hold.
  int64_t shorter_side = 0, longer_side = 0;
  bool fast_decode = false;  // large JPEGs may be decoded at a smaller scale
  std::array<float, 3> mean = {0.485f, 0.456f, 0.406f};
  std::array<float, 3> std = {0.229f, 0.224f, 0.225f};

  bool operator==(const Preprocessing&) const = default;
};

// Of an image, in pixels.
struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;

  auto operator<=>(const ImageSize&) const = default;
};

// The most input sizes that a model runs at besides its own: it keeps a plan for each.
inline constexpr size_t kMaxFurtherSizes = 32;

// Whose a detector follows where the two usual libraries differ: rounding, strides, coding of
// boxes, layers. Parity holds under the first, the papers' counts under the second.
enum class Conventions { kTorchvision, kMmdetection };

struct DetectionOptions {
  Conventions conventions = Conventions::kTorchvision;
  double score_threshold = 0.05;     // in [0, 1): candidates have more
  double nms_iou = 0.5;              // in [0, 1]: of two of one class that overlap more, one stays
  int64_t detections_per_image = 0;  // at most; 0: as the head was published
};

// Of a vision transformer whose sizes are its description's (the backbone "vit"); 0: as written
// beside it. Such a one has no more learned numbers or patches than these, so that no description
// allocates without bounds: ViT-G/14 has 1.84e9 of the first, 16-pixel patches of 4096 x 4096
// pixels make as many of the second.
struct VitSizes {
  static constexpr int64_t kMaxDepth = 256, kMaxWidth = 8192, kMaxMlpWidth = 65'536;
  static constexpr int64_t kMaxParameters = 2'000'000'000, kMaxPatches = 65'536;

  int64_t depth = 0;      // blocks; 12
  int64_t width = 0;      // numbers of a token; 384
  int64_t heads = 0;      // width / 64
  int64_t patch = 0;      // side in pixels; 16
  int64_t mlp_width = 0;  // 4 * width

  bool operator==(const VitSizes&) const = default;
};

// Conversion of a classifier's logits to confidences: shares of all classes, or each by itself.
enum class ClassifierActivation { kSoftmax, kSigmoid };

// Order in which a map is padded and rolled that shifted windows do not divide. Swin's authors,
// transformers and torchvision pad first, timm rolls first.
enum class WindowPadding { kPadThenRoll, kRollThenPad };

// Of an output: FP32, UINT8 or INT64.
enum class ElementType { kFloat, kByte, kInt64 };

// Of a head's pyramid and convolutions.
inline constexpr int64_t kMostHeadChannels = 1024;

struct ModelDescription {
  std::string name;      // for errors only
  std::string backbone;  // a name of the registry, for example "deit_tiny_patch16_224"
  // One text for every stage, or one text a stage; empty: the published attention. See
  // model_zoo/attention/attention_spec.h.
  std::vector<std::string> attention;
  Task task = Task::kClassification;
  std::string head;  // a name of the registry; empty: the task's usual one
  DetectionOptions detection;
  int64_t head_channels = 0;  // the width of a detector or segmenter; 0: as published
  static constexpr int64_t kNoClasses = -1;
  int64_t num_classes = 0;  // 0: the backbone's or the head's own number; kNoClasses: no classifier
  int64_t image_height = 0, image_width = 0;  // 0: the backbone's own size
  std::vector<ImageSize> further_sizes;       // that Run and Features take besides, once prepared
  std::optional<VitSizes> vit;                // with the backbone "vit" only
  ClassifierActivation classifier_activation = ClassifierActivation::kSoftmax;
  WindowPadding window_padding = WindowPadding::kPadThenRoll;
  Precision precision = Precision::kFp32;
  // Seeded weights instead of a file.
  std::optional<uint64_t> random_weights_seed;
  std::filesystem::path weights;  // a safetensors file, where no seed is given
};

// Facts of a loaded model, for metadata, metrics and the stages before and after it.
struct ModelInfo {
  std::string backbone;
  std::string attention;  // canonical text; empty: it has none
  int64_t image_height = 0, image_width = 0;
  std::vector<ImageSize> further_sizes;  // as described
  // What a prepared model takes: its own size, then the further ones. A shape bucket of the server
  // is a place in this list.
  std::vector<ImageSize> sizes() const {
    std::vector<ImageSize> all = {{image_height, image_width}};
    all.insert(all.end(), further_sizes.begin(), further_sizes.end());
    return all;
  }
  int64_t num_classes = 0;
  int64_t parameters = 0;  // learned numbers
  int64_t tokens = 0;      // of the first stage, prefix tokens included; 0 without attention
  PixelInput pixel_input = PixelInput::kNormalised;
  Preprocessing preprocessing;  // the published one
  // What comes out for one image, by name. Classifiers: {"logits", {num_classes}}. -1 in a shape:
  // it follows from the size of the input.
  struct Output {
    std::string name;
    std::vector<int64_t> shape;
    ElementType type = ElementType::kFloat;

    bool operator==(const Output&) const = default;
  };
  std::vector<Output> outputs;
  bool finishes = false;  // Model::Finish has work to do
  // Model::RunBatch does the same work whatever the images show, does not wait for the device and
  // reads no host memory, given pixels on the device: a GPU may record a pass and replay it with
  // other pixels in the same place.
  bool replayable = true;
  // The maps of its feature pyramid, finest first; empty: it has none.
  struct FeatureMap {
    int64_t channels = 0;
    int64_t stride = 0;  // pixels to a position
  };
  std::vector<FeatureMap> features;
};

}  // namespace fovea::models
