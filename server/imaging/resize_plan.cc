#include "server/imaging/resize_plan.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/limits.h"
#include "base/status.h"

namespace fovea {
namespace {

// Python's round(): to nearest, halves to even.
int64_t Round(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

struct Size {
  int64_t height, width;
};

// torchvision.transforms.Resize(int): the shorter side becomes `shorter`, the longer one is cut off
// to a whole number.
Size ResizeShorterSide(int64_t height, int64_t width, int64_t shorter) {
  const auto longer = [&](int64_t long_side, int64_t short_side) {
    return static_cast<int64_t>(static_cast<double>(shorter * long_side) /
                                static_cast<double>(short_side));
  };
  if (width <= height) return {longer(height, width), shorter};
  return {shorter, longer(width, height)};
}

// timm's ResizeKeepRatio: the smallest size of the same aspect ratio that covers `target`, rounded.
Size ResizeToCover(int64_t height, int64_t width, Size target) {
  const double ratio = std::min(static_cast<double>(height) / static_cast<double>(target.height),
                                static_cast<double>(width) / static_cast<double>(target.width));
  return {Round(static_cast<double>(height) / ratio), Round(static_cast<double>(width) / ratio)};
}

}  // namespace

absl::Status CheckPreprocessSpec(const PreprocessSpec& spec) {
  const auto side_ok = [](int64_t side) { return side >= 1 && side <= limits::kMaxInputSide; };
  if (!side_ok(spec.height) || !side_ok(spec.width)) {
    return FailedPrecondition("model.bad_preprocessing",
                              "the input's height or width is out of range");
  }
  // The lower bound keeps sizes within what can be computed; published values lie between 0.8
  // and 1.
  if (!(spec.crop_fraction >= 0.01 && spec.crop_fraction <= 1.0)) {
    return FailedPrecondition("model.bad_preprocessing", "crop_fraction lies outside [0.01, 1]");
  }
  return absl::OkStatus();
}

ResizePlan PlanResize(int64_t height, int64_t width, const PreprocessSpec& spec) {
  FOVEA_CHECK(height >= 1 && width >= 1);
  const auto enlarged = [&](int64_t side) {
    return static_cast<int64_t>(std::floor(static_cast<double>(side) / spec.crop_fraction));
  };
  const Size cover{enlarged(spec.height), enlarged(spec.width)};
  Size resized = cover;
  if (spec.resize_mode == ResizeMode::kShortestEdge) {
    // The two may differ by a pixel on the longer side, in timm as here.
    resized = cover.height == cover.width ? ResizeShorterSide(height, width, cover.height)
                                          : ResizeToCover(height, width, cover);
  }
  ResizePlan plan{.resized_height = resized.height,
                  .resized_width = resized.width,
                  .height = spec.height,
                  .width = spec.width};
  plan.top = Round(static_cast<double>(resized.height - spec.height) / 2);
  plan.left = Round(static_cast<double>(resized.width - spec.width) / 2);
  FOVEA_CHECK(plan.top >= 0 && plan.left >= 0 && plan.top + plan.height <= resized.height &&
              plan.left + plan.width <= resized.width);
  return plan;
}

}  // namespace fovea
