#include "server/postprocess/detection.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/imaging/encode_png.h"
#include "server/postprocess/instance_mask.h"

namespace fovea {
namespace {

static_assert(std::endian::native == std::endian::little, "raw tensors are little-endian");

struct RequiredOutput {
  std::string_view name;
  DataType type;
  size_t rank;
};
constexpr RequiredOutput kOutputs[] = {{"boxes", DataType::kFp32, 3},
                                       {"scores", DataType::kFp32, 2},
                                       {"labels", DataType::kInt64, 2},
                                       {"counts", DataType::kInt64, 1}};
constexpr RequiredOutput kMasks = {"masks", DataType::kFp32, 4};  // where there are some

const TensorDescription* Find(const ModelView& model, const RequiredOutput& required) {
  const auto found = std::ranges::find_if(model.outputs, [&](const TensorDescription& output) {
    return output.name == required.name && output.type == required.type &&
           output.shape.size() == required.rank;
  });
  return found == model.outputs.end() ? nullptr : &*found;
}

// The numbers of the output of that name; there is one.
template <typename Number>
std::vector<Number> Take(const std::vector<OutputTensor>& outputs, std::string_view name) {
  const auto found = std::ranges::find(outputs, name, &OutputTensor::name);
  FOVEA_CHECK(found != outputs.end());
  std::vector<Number> numbers(found->data.size() / sizeof(Number));
  std::memcpy(numbers.data(), found->data.data(), numbers.size() * sizeof(Number));
  return numbers;
}

// x1, y1, x2, y2 of the model's input in the picture that it saw.
Box InPicture(std::span<const float> box, const ImageTransform& seen) {
  const auto x = [&](float at) {
    return static_cast<float>(
        std::clamp(seen.SourceX(at), 0.0, static_cast<double>(seen.source_width)));
  };
  const auto y = [&](float at) {
    return static_cast<float>(
        std::clamp(seen.SourceY(at), 0.0, static_cast<double>(seen.source_height)));
  };
  return {x(box[0]), y(box[1]), x(box[2]), y(box[3])};
}

// The class of each label, the first of equals. The texts are the labels' own.
using ClassByLabel = absl::flat_hash_map<std::string_view, int64_t>;
ClassByLabel IndexOf(const std::vector<std::string>& labels) {
  ClassByLabel index;
  index.reserve(labels.size());
  for (size_t i = 0; i < labels.size(); ++i) index.emplace(labels[i], static_cast<int64_t>(i));
  return index;
}

class DetectionTask final : public TaskPostprocessor {
 public:
  DetectionTask(std::shared_ptr<const ModelView> model, int64_t most,
                std::optional<int64_t> mask_side)
      : model_(std::move(model)),
        most_(most),
        mask_side_(mask_side),
        class_by_label_(IndexOf(*model_->labels)) {}

  absl::Status Check(const RequestOptions& options) const override {
    const auto& asked = std::get<DetectOptions>(options);
    if (asked.masks != MaskFormat::kNone && !mask_side_) {
      return FailedPrecondition("model.no_masks", "the model has no output masks: it finds boxes");
    }
    return ClassesOf(asked).status();
  }

  int64_t ResultBytes(const RequestOptions& options, const PictureBounds& image) const override {
    const auto& asked = std::get<DetectOptions>(options);
    int64_t each = RecordBytes(*model_), one = 0;
    if (asked.masks != MaskFormat::kNone) {
      each += RecordBytes(*model_) + 3 * MaskBytes(image.side);
      one = 4 * image.pixels;  // while it is made: by columns, by rows, encoded
    }
    return MostOf(asked) * each + one;
  }

  bool TakesLong(const RequestOptions& options) const override {
    const auto* const asked = std::get_if<DetectOptions>(&options);
    return asked != nullptr && asked->masks != MaskFormat::kNone;
  }

  absl::StatusOr<Results> Process(const RequestOptions& options, std::vector<OutputTensor> outputs,
                                  std::span<const ImageTransform> images,
                                  StillWanted wanted) const override {
    const auto& asked = std::get<DetectOptions>(options);
    FOVEA_ASSIGN_OR_RETURN(const Classes classes, ClassesOf(asked));
    const auto boxes = Take<float>(outputs, "boxes"), scores = Take<float>(outputs, "scores");
    const auto labels = Take<int64_t>(outputs, "labels"), counts = Take<int64_t>(outputs, "counts");
    FOVEA_CHECK(counts.size() == images.size());
    std::vector<float> masks;
    if (asked.masks != MaskFormat::kNone) masks = Take<float>(outputs, kMasks.name);
    DetectResults results;
    for (size_t image = 0; image < images.size(); ++image) {
      const ImageTransform& seen = images[image];
      ImageDetections& result = results.emplace_back();
      result.image = {seen.source_height, seen.source_width};
      const size_t first = image * static_cast<size_t>(most_);
      for (size_t i = first; i < first + static_cast<size_t>(counts[image]); ++i) {
        if (std::ssize(result.detections) == MostOf(asked)) break;
        if (scores[i] < asked.score_threshold) continue;
        if (!classes.empty() && !classes.contains(labels[i])) continue;
        Detection& detection = result.detections.emplace_back();
        detection.box = InPicture(std::span(boxes).subspan(4 * i, 4), seen);
        detection.score = scores[i];
        detection.class_index = static_cast<int>(labels[i]);
        if (static_cast<size_t>(labels[i]) < model_->labels->size()) {
          detection.label = (*model_->labels)[labels[i]];
        }
        if (masks.empty()) continue;
        FOVEA_RETURN_IF_ERROR(wanted());
        const size_t places = *mask_side_ * *mask_side_;
        FOVEA_ASSIGN_OR_RETURN(detection.mask, MaskOf(std::span(masks).subspan(i * places, places),
                                                      detection.box, result.image, asked.masks));
      }
    }
    return results;
  }

  absl::Status PlaceInPictures(const WantedTensors& /*asked*/, std::vector<OutputTensor>& outputs,
                               std::span<const ImageTransform> images,
                               StillWanted /*wanted*/) const override {
    const auto boxes = std::ranges::find(outputs, kOutputs[0].name, &OutputTensor::name);
    FOVEA_CHECK(boxes != outputs.end());
    std::vector<float> numbers = Take<float>(outputs, boxes->name);
    const std::vector<int64_t> counts = Take<int64_t>(outputs, "counts");
    for (size_t image = 0; image < images.size(); ++image) {
      const size_t first = 4 * image * static_cast<size_t>(most_);
      for (size_t i = first; i < first + 4 * static_cast<size_t>(counts[image]); i += 4) {
        const auto [left, top, right, bottom] =
            InPicture(std::span(numbers).subspan(i, 4), images[image]);
        numbers[i] = left;
        numbers[i + 1] = top;
        numbers[i + 2] = right;
        numbers[i + 3] = bottom;
      }
    }
    std::memcpy(boxes->data.data(), numbers.data(), boxes->data.size());
    return absl::OkStatus();
  }

 private:
  using Classes = absl::flat_hash_set<int64_t>;

  int64_t MostOf(const DetectOptions& options) const {
    return options.max_detections == 0 ? most_ : std::min<int64_t>(options.max_detections, most_);
  }

  // That one encoded mask of a picture of that longest side may take: an outline that crosses each
  // column of pixels eight times, at four bytes each.
  static int64_t MaskBytes(int64_t side) { return 64 + 32 * side; }

  absl::StatusOr<InstanceMask> MaskOf(std::span<const float> probabilities, const Box& box,
                                      const ImageSize& image, MaskFormat format) const {
    const PastedMask pasted =
        PasteMask(probabilities, *mask_side_, box, image, model_->mask_pasting);
    InstanceMask mask{.run_lengths = "",
                      .png = "",
                      .left = pasted.left,
                      .top = pasted.top,
                      .pixels = pasted.pixels};
    if (format == MaskFormat::kRunLengths) {
      mask.run_lengths = RunLengthsOf(pasted, image);
    } else if (pasted.pixels > 0) {
      FOVEA_ASSIGN_OR_RETURN(mask.png,
                             EncodeGreyPng(GreyRows(pasted), {pasted.height, pasted.width}));
    }
    if (std::ssize(mask.run_lengths) + std::ssize(mask.png) >
        MaskBytes(std::max(image.height, image.width))) {
      return ResourceExhausted("request.masks_too_large",
                               "an object's outline is too long to be told");
    }
    return mask;
  }

  // Labels first: a label may be a number.
  absl::StatusOr<Classes> ClassesOf(const DetectOptions& options) const {
    // A header holds tens of thousands of names, and each picture of a request has them all.
    const int64_t most = 2 * model_->num_classes;  // each by its label and by its number
    if (std::ssize(options.classes) > most) {
      return InvalidArgument(
          "request.too_many_classes",
          absl::StrCat(options.classes.size(), " classes; the model has ", model_->num_classes,
                       ": at most ", most, " names are taken"));
    }
    Classes classes;
    for (const std::string& name : options.classes) {
      const auto label = class_by_label_.find(name);
      int64_t index = 0;
      if (label != class_by_label_.end()) {
        index = label->second;
      } else if (!absl::SimpleAtoi(name, &index) || index < 0 || index >= model_->num_classes) {
        return InvalidArgument("request.class_unknown",
                               absl::StrCat("the model has no class ", InQuotes(name)));
      }
      classes.insert(index);
    }
    return classes;
  }

  const std::shared_ptr<const ModelView> model_;
  const int64_t most_;  // detections of an image
  const std::optional<int64_t> mask_side_;
  const ClassByLabel class_by_label_;  // after model_, whose labels it looks into
};

}  // namespace

absl::StatusOr<std::unique_ptr<const TaskPostprocessor>> MakeDetection(
    std::shared_ptr<const ModelView> model) {
  for (const RequiredOutput& required : kOutputs) {
    if (Find(*model, required) == nullptr) {
      return FailedPrecondition("model.no_detector",
                                absl::StrCat("the model has no output ", std::string(required.name),
                                             " as detectors have it: it gives no detections"));
    }
  }
  const int64_t most = Find(*model, kOutputs[0])->shape[1];
  std::optional<int64_t> mask_side;
  if (const TensorDescription* masks = Find(*model, kMasks)) mask_side = masks->shape[3];
  return std::make_unique<const DetectionTask>(std::move(model), most, mask_side);
}

}  // namespace fovea
