// Whether two models' answers to one request differ in what a caller looks at first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "server/core/request.h"
#include "server/core/vision_task.h"

namespace fovea {

// The part of the answer to a request with one image that is compared.
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

// Copies that part. None: `results` do not have it, for example because the request asked for other
// tensors, or they are for several images.
std::optional<ComparableAnswer> TakeComparable(const Results& results, VisionTask task);

// At least what TakeComparable copies of `results`.
int64_t ComparableBytes(const Results& results);

// Both answer one request, which asked for them in one form. First classes differ where they are
// not the same; objects where one answer has an object without a partner in the other, as Agree
// pairs them; class maps where more than a twentieth of the pixels have other classes. None: they
// cannot be compared, which is so for PNG files of more than 256 classes.
std::optional<bool> Differ(const ComparableAnswer& answer, const ComparableAnswer& baseline);

}  // namespace fovea
