// Whether two models' answers to one request differ in what a caller looks at first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "server/core/request.h"
#include "server/core/vision_task.h"

namespace fovea {

// What is compared of the answer to a request with one image.
struct FirstClass {
  int64_t index = 0;
};
struct ClassMap {
  // One of: a file whose grey levels are class numbers; run lengths; as many bytes for each pixel.
  std::string png;
  SegmentResults run_lengths;
  std::string pixels;
  size_t pixel_bytes = 0;
};
using ComparableAnswer = std::variant<FirstClass, DetectResults, ClassMap>;

// Copies it. None: `results` have nothing of it, for example of a request for other tensors, or are
// more than an image's.
std::optional<ComparableAnswer> TakeComparable(const Results& results, VisionTask task);

// At least what TakeComparable copies of `results`.
int64_t ComparableBytes(const Results& results);

// Both are of one request, which asked for them in one form. First classes differ where they are
// two; objects where any of one has no partner in the other, as Agree pairs them; class maps where
// more than a twentieth of the pixels have other classes. None: they cannot be compared, which is
// so for PNG files of more than 256 classes.
std::optional<bool> Differ(const ComparableAnswer& answer, const ComparableAnswer& baseline);

}  // namespace fovea
