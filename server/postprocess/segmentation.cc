#include "server/postprocess/segmentation.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "server/imaging/encode_png.h"
#include "server/postprocess/class_map.h"
#include "server/postprocess/class_run_lengths.h"
#include "server/postprocess/tensors.h"

namespace fovea {
namespace {

constexpr std::string_view kLogitsOutput = "logits";
constexpr int64_t kClassesOfABytes = 256;

class SegmentationTask final : public TaskPostprocessor {
 public:
  explicit SegmentationTask(std::shared_ptr<const ModelView> model) : model_(std::move(model)) {}

  int64_t ResultBytes(const RequestOptions& options, const PictureBounds& image) const override {
    const auto& asked = std::get<SegmentOptions>(options);
    const int64_t classes = model_->num_classes * RecordBytes(*model_);
    // What cannot be compressed is a little longer than it was. At the worst each pixel is a run of
    // its class, and what lies between two of a class are as many pixels as there are classes: a
    // character for the first, and one for each five bits of the second's change.
    const int64_t characters =
        1 + (std::bit_width(static_cast<uint64_t>(model_->num_classes)) + 2 + 4) / 5;
    const int64_t encoded = 3 * image.pixels * (asked.format == MapFormat::kPng ? 2 : characters);
    return classes + MapBytes(image.pixels, asked.confidence) + 2 * encoded +
           (asked.confidence ? 4 * image.pixels : 0);
  }

  absl::StatusOr<Results> Process(const RequestOptions& options, std::vector<OutputTensor> outputs,
                                  std::span<const ImageTransform> images,
                                  StillWanted wanted) const override {
    const auto& asked = std::get<SegmentOptions>(options);
    const std::vector<float> logits = LogitsOf(outputs);
    SegmentResults results;
    for (size_t i = 0; i < images.size(); ++i) {
      FOVEA_ASSIGN_OR_RETURN(const ClassMap map,
                             MapClasses(MapOf(logits, outputs, i, images.size()), images[i],
                                        asked.confidence, wanted));
      FOVEA_ASSIGN_OR_RETURN(ImageSegmentation result, Describe(map, images[i], asked, wanted));
      results.push_back(std::move(result));
    }
    return results;
  }

  bool TakesLong(const RequestOptions& options) const override {
    const auto* const wanted = std::get_if<WantedTensors>(&options);
    return wanted == nullptr || FindWanted(*wanted, kClassMapOutput) != nullptr;
  }

  // The softmax has every class of every pixel. Without it only borders of classes are computed.
  int64_t NumbersPerPixel(const RequestOptions& options) const override {
    const auto* const asked = std::get_if<SegmentOptions>(&options);
    return asked != nullptr && asked->confidence ? model_->num_classes : 1;
  }

  absl::Status PlaceInPictures(const WantedTensors& asked, std::vector<OutputTensor>& outputs,
                               std::span<const ImageTransform> images,
                               StillWanted wanted) const override {
    if (FindWanted(asked, kClassMapOutput) == nullptr) return absl::OkStatus();
    const int64_t height = images[0].source_height, width = images[0].source_width;
    const TensorDescription described = ClassMapTensor(model_->num_classes);
    OutputTensor map{described.name, described.type, {std::ssize(images), height, width}, ""};
    map.data.reserve(images.size() * static_cast<size_t>(height * width) *
                     ElementSize(described.type));
    const std::vector<float> logits = LogitsOf(outputs);
    for (size_t i = 0; i < images.size(); ++i) {
      // Files of different sizes that the model sees at one.
      if (images[i].source_height != height || images[i].source_width != width) {
        return ImagesDiffer(kClassMapOutput);
      }
      FOVEA_ASSIGN_OR_RETURN(const ClassMap classes,
                             MapClasses(MapOf(logits, outputs, i, images.size()), images[i],
                                        /*confidence=*/false, wanted));
      if (described.type == DataType::kUint8) {
        map.data.resize(map.data.size() + classes.classes.size());
        std::ranges::transform(classes.classes, map.data.end() - std::ssize(classes.classes),
                               [](uint16_t value) { return static_cast<char>(value); });
      } else {
        map.data.append(reinterpret_cast<const char*>(classes.classes.data()),
                        classes.classes.size() * sizeof(uint16_t));
      }
    }
    outputs.insert(outputs.begin(), std::move(map));
    return absl::OkStatus();
  }

  int64_t PlacedBytes(const WantedTensors& wanted, const PictureBounds& image) const override {
    if (FindWanted(wanted, kClassMapOutput) == nullptr) return 0;
    return MapBytes(image.pixels, /*confidence=*/false) +
           2 * int64_t{sizeof(uint16_t)} * image.pixels;
  }

 private:
  static const OutputTensor& Logits(const std::vector<OutputTensor>& outputs) {
    const auto found = std::ranges::find(outputs, kLogitsOutput, &OutputTensor::name);
    FOVEA_CHECK(found != outputs.end());
    return *found;
  }
  static std::vector<float> LogitsOf(const std::vector<OutputTensor>& outputs) {
    const std::string& data = Logits(outputs).data;
    std::vector<float> numbers(data.size() / sizeof(float));
    std::memcpy(numbers.data(), data.data(), data.size());
    return numbers;
  }
  static LogitMap MapOf(std::span<const float> logits, const std::vector<OutputTensor>& outputs,
                        size_t image, size_t images) {
    const std::vector<int64_t>& shape = Logits(outputs).shape;
    const size_t each = logits.size() / images;
    return {logits.subspan(image * each, each), shape[1], shape[2], shape[3]};
  }

  // Of the copy of the logits, and what MapClasses takes, at the model's largest size.
  int64_t MapBytes(int64_t pixels, bool confidence) const {
    const int64_t logits = model_->output_bytes;
    const LogitMap largest{{}, 1, 1, logits / int64_t{sizeof(float)}};
    return logits + ClassMapBytes(largest, pixels, confidence);
  }

  absl::StatusOr<ImageSegmentation> Describe(const ClassMap& map, const ImageTransform& seen,
                                             const SegmentOptions& asked,
                                             StillWanted wanted) const {
    ImageSegmentation result;
    result.image = {seen.source_height, seen.source_width};
    std::vector<int64_t> pixels(model_->num_classes);
    for (const uint16_t value : map.classes) ++pixels[value];
    std::vector<std::string> run_lengths;
    if (asked.format == MapFormat::kRunLengths) {
      FOVEA_ASSIGN_OR_RETURN(
          run_lengths, RunLengthsOfClasses(map.classes, result.image, model_->num_classes, wanted));
    }
    for (int64_t value = 0; value < model_->num_classes; ++value) {
      if (pixels[value] == 0) continue;
      ClassArea& area = result.classes.emplace_back();
      area.class_index = static_cast<int>(value);
      if (value < std::ssize(*model_->labels)) area.label = (*model_->labels)[value];
      area.pixels = pixels[value];
      if (!run_lengths.empty()) area.run_lengths = std::move(run_lengths[value]);
    }
    FOVEA_RETURN_IF_ERROR(wanted());
    std::ranges::stable_sort(result.classes, std::greater(), &ClassArea::pixels);
    if (asked.format == MapFormat::kPng) {
      FOVEA_ASSIGN_OR_RETURN(result.class_map_png, EncodeMap(map.classes, result.image));
    }
    if (asked.confidence) {
      FOVEA_RETURN_IF_ERROR(wanted());
      FOVEA_ASSIGN_OR_RETURN(result.confidence_png, EncodeGreyPng(map.confidence, result.image));
    }
    return result;
  }

  absl::StatusOr<std::string> EncodeMap(const std::vector<uint16_t>& map,
                                        const ImageSize& size) const {
    if (model_->num_classes > kClassesOfABytes) return EncodeGreyPng(map, size);
    const std::vector<uint8_t> bytes(map.begin(), map.end());
    return EncodeGreyPng(bytes, size);
  }

  const std::shared_ptr<const ModelView> model_;
};

}  // namespace

TensorDescription ClassMapTensor(int64_t num_classes) {
  return {std::string(kClassMapOutput),
          num_classes <= kClassesOfABytes ? DataType::kUint8 : DataType::kUint16,
          {-1, -1, -1}};
}

absl::StatusOr<std::unique_ptr<const TaskPostprocessor>> MakeSegmentation(
    std::shared_ptr<const ModelView> model) {
  const bool has_logits = std::ranges::any_of(model->outputs, [&](const TensorDescription& output) {
    return output.name == kLogitsOutput && output.type == DataType::kFp32 &&
           output.shape.size() == 4 && output.shape[1] == model->num_classes;
  });
  if (!has_logits) {
    return FailedPrecondition("model.no_segmenter",
                              "the model has no map of logits: it gives no class maps");
  }
  return std::make_unique<const SegmentationTask>(std::move(model));
}

}  // namespace fovea
