#include "server/imaging/jpeg_scale.h"

#include <algorithm>
#include <utility>

#include "base/exif.h"
#include "server/core/image_size.h"

namespace fovea {
namespace {

// So many times the resized sides are decoded at least. At 1 the two filters together are visibly
// not the one that the model was trained behind: measured by tests/bench/imaging/fast_decode.py,
// docs/decisions/jpegs-may-be-decoded-smaller.md has the numbers.
constexpr int64_t kMargin = 2;

// A side of fewer pixels is left alone: there is nothing to save.
constexpr int64_t kLeastSide = 8;

}  // namespace

int HalvingsFor(const ImageInfo& info, const PreprocessSpec& spec) {
  if (!spec.fast_decode || info.format != ImageFormat::kJpeg) return 0;
  ImageSize upright{info.height, info.width};
  if (TurnOf(info.orientation).transposed) std::swap(upright.height, upright.width);
  const ResizePlan plan = PlanResize(upright.height, upright.width, spec);
  const int64_t height = std::max(kMargin * plan.resized_height, kLeastSide);
  const int64_t width = std::max(kMargin * plan.resized_width, kLeastSide);
  int halvings = 0;
  while (halvings < kMaxHalvings && upright.height >= height << (halvings + 1) &&
         upright.width >= width << (halvings + 1)) {
    ++halvings;
  }
  return halvings;
}

SourceBox DecodedBox(const ImageInfo& info, int halvings) {
  const UprightTurn turn = TurnOf(info.orientation);
  const double pixel = 1 << halvings;
  double height = info.height / pixel, width = info.width / pixel;
  double below = DecodedSide(info.height, halvings) - height;
  double right = DecodedSide(info.width, halvings) - width;
  if (turn.transposed) {
    std::swap(height, width);
    std::swap(below, right);
  }
  return {.top = turn.upside_down ? below : 0,
          .left = turn.mirrored ? right : 0,
          .height = height,
          .width = width};
}

}  // namespace fovea
