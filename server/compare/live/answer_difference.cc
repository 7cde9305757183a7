#include "server/compare/live/answer_difference.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "server/compare/agreement.h"
#include "server/imaging/decode.h"
#include "server/imaging/probe.h"

namespace fovea {
namespace {

constexpr double kLeastSamePixels = 0.95;  // of class maps that do not differ

const OutputTensor* Find(const TensorResults& tensors, std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const OutputTensor& tensor) { return tensor.name == name; });
  // Of one image, and in one piece.
  const bool is_one = found != tensors.end() && !found->shape.empty() && found->shape[0] == 1 &&
                      found->further.empty() && !found->data.empty();
  return is_one ? &*found : nullptr;
}

template <typename Number>
std::vector<Number> Numbers(const OutputTensor& tensor) {
  std::vector<Number> numbers(tensor.data.size() / sizeof(Number));
  std::memcpy(numbers.data(), tensor.data.data(), numbers.size() * sizeof(Number));
  return numbers;
}

// "VALUE:INDEX" or "VALUE:INDEX:LABEL", behind its length.
std::optional<int64_t> FirstIndex(std::string_view elements) {
  const size_t colon = elements.find(':', sizeof(uint32_t));
  if (colon == elements.npos) return std::nullopt;
  int64_t index = 0;
  const char* const end = elements.data() + elements.size();
  const auto read = std::from_chars(elements.data() + colon + 1, end, index);
  return read.ec == std::errc() ? std::optional(index) : std::nullopt;
}

std::optional<ComparableAnswer> TakeClass(const TensorResults& tensors) {
  const OutputTensor* const logits = Find(tensors, "logits");
  if (logits == nullptr) return std::nullopt;
  if (logits->type == DataType::kBytes) {
    const std::optional<int64_t> index = FirstIndex(logits->data);
    return index ? std::optional<ComparableAnswer>(FirstClass{*index}) : std::nullopt;
  }
  if (logits->type != DataType::kFp32) return std::nullopt;
  const auto numbers = Numbers<float>(*logits);
  return FirstClass{std::max_element(numbers.begin(), numbers.end()) - numbers.begin()};
}

std::optional<ComparableAnswer> TakeObjects(const TensorResults& tensors) {
  const OutputTensor* const boxes = Find(tensors, "boxes");
  const OutputTensor* const labels = Find(tensors, "labels");
  const OutputTensor* const counts = Find(tensors, "counts");
  if (boxes == nullptr || labels == nullptr || counts == nullptr) return std::nullopt;
  const auto sides = Numbers<float>(*boxes);
  const auto classes = Numbers<int64_t>(*labels);
  const auto count = static_cast<size_t>(Numbers<int64_t>(*counts).front());
  if (count > classes.size() || 4 * count > sides.size()) return std::nullopt;
  DetectResults objects(1);
  for (size_t i = 0; i < count; ++i) {
    const float* const box = &sides[4 * i];
    objects[0].detections.push_back(
        {.box = {box[0], box[1], box[2], box[3]}, .class_index = static_cast<int>(classes[i])});
  }
  return objects;
}

std::optional<ComparableAnswer> TakeMap(const TensorResults& tensors) {
  const OutputTensor* const map = Find(tensors, "class_map");
  if (map == nullptr) return std::nullopt;
  return ClassMap{.pixels = map->data, .pixel_bytes = ElementSize(map->type)};
}

std::optional<ComparableAnswer> TakeMap(const ImageSegmentation& segmentation) {
  ClassMap map{.png = segmentation.class_map_png};
  if (map.png.empty()) {
    ImageSegmentation& runs = map.run_lengths.emplace_back();
    runs.image = segmentation.image;
    runs.classes = segmentation.classes;
  }
  return map;
}

// The grey levels of a file of our own.
std::optional<std::vector<uint8_t>> GreyLevels(const std::string& png) {
  const Bytes file(reinterpret_cast<const std::byte*>(png.data()), png.size());
  const absl::StatusOr<ImageInfo> info = ProbeImage(file, ImageLimits{.max_aspect_ratio = 1 << 20});
  if (!info.ok() || info->bit_depth != 8) return std::nullopt;
  const absl::StatusOr<RgbImage> image = DecodeImage(file, *info);
  if (!image.ok()) return std::nullopt;
  std::vector<uint8_t> levels(image->size() / 3);
  for (size_t i = 0; i < levels.size(); ++i) levels[i] = image->pixels[3 * i];
  return levels;
}

bool MapsDiffer(std::span<const uint8_t> a, std::span<const uint8_t> b, size_t pixel_bytes) {
  if (a.size() != b.size()) return true;
  size_t same = 0;
  const size_t pixels = a.size() / pixel_bytes;
  for (size_t i = 0; i < pixels; ++i) {
    same += std::memcmp(&a[i * pixel_bytes], &b[i * pixel_bytes], pixel_bytes) == 0;
  }
  return static_cast<double>(same) < kLeastSamePixels * static_cast<double>(pixels);
}

std::optional<bool> MapsDiffer(const ClassMap& a, const ClassMap& b) {
  if (a.png.empty() != b.png.empty() || a.pixel_bytes != b.pixel_bytes) return std::nullopt;
  if (!a.png.empty()) {
    const auto levels = GreyLevels(a.png), others = GreyLevels(b.png);
    if (!levels || !others) return std::nullopt;
    return MapsDiffer(*levels, *others, 1);
  }
  if (a.pixel_bytes > 0) {
    const auto bytes = [](const std::string& text) {
      return std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    };
    return MapsDiffer(bytes(a.pixels), bytes(b.pixels), a.pixel_bytes);
  }
  const Results ours = a.run_lengths, theirs = b.run_lengths;
  const Agreement agreement = Agree(std::span(&ours, 1), std::span(&theirs, 1));
  return std::get<MapAgreement>(agreement).same_pixels < kLeastSamePixels;
}

}  // namespace

std::optional<ComparableAnswer> TakeComparable(const Results& results, VisionTask task) {
  if (const auto* const tensors = std::get_if<TensorResults>(&results)) {
    switch (task) {
      case VisionTask::kClassification:
        return TakeClass(*tensors);
      case VisionTask::kDetection:
        return TakeObjects(*tensors);
      case VisionTask::kSegmentation:
        return TakeMap(*tensors);
    }
  }
  if (const auto* const classified = std::get_if<ClassifyResults>(&results)) {
    if (classified->size() != 1 || classified->front().empty()) return std::nullopt;
    return FirstClass{classified->front().front().index};
  }
  if (const auto* const detected = std::get_if<DetectResults>(&results)) {
    if (detected->size() != 1) return std::nullopt;
    // Without labels and masks, which may be large.
    DetectResults objects(1);
    for (const Detection& object : detected->front().detections) {
      objects[0].detections.push_back({.box = object.box, .class_index = object.class_index});
    }
    return objects;
  }
  const auto& segmented = std::get<SegmentResults>(results);
  return segmented.size() == 1 ? TakeMap(segmented.front()) : std::nullopt;
}

int64_t ComparableBytes(const Results& results) {
  size_t bytes = 0;
  if (const auto* const tensors = std::get_if<TensorResults>(&results)) {
    for (const OutputTensor& tensor : *tensors) {
      if (tensor.name == "labels") bytes += tensor.bytes() / sizeof(int64_t) * sizeof(Detection);
      if (tensor.name == "class_map") bytes += tensor.bytes();
    }
  } else if (const auto* const detected = std::get_if<DetectResults>(&results)) {
    for (const ImageDetections& image : *detected) {
      bytes += image.detections.size() * sizeof(Detection);
    }
  } else if (const auto* const segmented = std::get_if<SegmentResults>(&results)) {
    for (const ImageSegmentation& image : *segmented) {
      bytes += image.class_map_png.size();
      for (const ClassArea& area : image.classes) {
        bytes += sizeof(area) + area.label.size() + area.run_lengths.size();
      }
    }
  }
  return static_cast<int64_t>(bytes);
}

std::optional<bool> Differ(const ComparableAnswer& answer, const ComparableAnswer& baseline) {
  if (answer.index() != baseline.index()) return std::nullopt;
  if (const auto* const first = std::get_if<FirstClass>(&answer)) {
    return first->index != std::get<FirstClass>(baseline).index;
  }
  if (const auto* const map = std::get_if<ClassMap>(&answer)) {
    return MapsDiffer(*map, std::get<ClassMap>(baseline));
  }
  const Results ours = std::get<DetectResults>(answer), theirs = std::get<DetectResults>(baseline);
  const Agreement agreement = Agree(std::span(&ours, 1), std::span(&theirs, 1));
  const auto& objects = std::get<ObjectAgreement>(agreement);
  return objects.matched != objects.objects || objects.matched != objects.baseline_objects;
}

}  // namespace fovea
