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

// torchvision.transforms.Resize(int): the shorter side becomes `shorter`, the longer one is cut off
// to a whole number.
ImageSize ResizeShorterSide(int64_t height, int64_t width, int64_t shorter) {
  const auto longer = [&](int64_t long_side, int64_t short_side) {
    return static_cast<int64_t>(static_cast<double>(shorter * long_side) /
                                static_cast<double>(short_side));
  };
  if (width <= height) return {longer(height, width), shorter};
  return {shorter, longer(width, height)};
}

// timm's ResizeKeepRatio: the smallest size of the same aspect ratio that covers `target`, rounded.
ImageSize ResizeToCover(int64_t height, int64_t width, const ImageSize& target) {
  const double ratio = std::min(static_cast<double>(height) / static_cast<double>(target.height),
                                static_cast<double>(width) / static_cast<double>(target.width));
  return {Round(static_cast<double>(height) / ratio), Round(static_cast<double>(width) / ratio)};
}

// The image with `side`, one of its own, as `target`; the other cut off to a whole number.
ImageSize Scaled(const ImageSize& image, int64_t target, int64_t side) {
  return {std::max<int64_t>(1, image.height * target / side),
          std::max<int64_t>(1, image.width * target / side)};
}

// As large as `room` holds it.
ImageSize Inside(const ImageSize& image, const ImageSize& room) {
  return image.width * room.height <= room.width * image.height
             ? Scaled(image, room.height, image.height)
             : Scaled(image, room.width, image.width);
}

int64_t Area(const ImageSize& size) { return size.height * size.width; }

ResizePlan PlanFit(const ImageSize& image, const PreprocessSpec& spec) {
  ImageSize wanted{limits::kMaxInputSide + 1, limits::kMaxInputSide + 1};  // more than any holds
  if (spec.shorter_side != 0) {
    const auto [shorter, longer] = std::minmax(image.height, image.width);
    wanted = longer * spec.shorter_side <= shorter * spec.longer_side
                 ? Scaled(image, spec.shorter_side, shorter)
                 : Scaled(image, spec.longer_side, longer);
  }
  // The largest that the image can become; of the sizes that hold it so, the smallest.
  ResizePlan best;
  for (size_t i = 0; i < spec.sizes.size(); ++i) {
    const ImageSize& size = spec.sizes[i];
    const bool holds = wanted.height <= size.height && wanted.width <= size.width;
    const ImageSize resized = holds ? wanted : Inside(image, size);
    const int64_t gain = Area(resized) - best.resized_height * best.resized_width;
    if (gain < 0 || (gain == 0 && Area(size) >= Area(spec.sizes[best.size]))) continue;
    best = {.resized_height = resized.height,
            .resized_width = resized.width,
            .height = resized.height,
            .width = resized.width,
            .size = i};
  }
  return best;
}

}  // namespace

absl::Status CheckPreprocessSpec(const PreprocessSpec& spec) {
  const auto side_ok = [](int64_t side) { return side >= 1 && side <= limits::kMaxInputSide; };
  const bool sizes_ok = std::ranges::all_of(spec.sizes, [&](const ImageSize& size) {
    return side_ok(size.height) && side_ok(size.width);
  });
  if (spec.sizes.empty() || !sizes_ok) {
    return FailedPrecondition("model.bad_preprocessing",
                              "the input's height or width is out of range");
  }
  const bool any = spec.shorter_side == 0 && spec.longer_side == 0;
  if (!any && !(side_ok(spec.shorter_side) && side_ok(spec.longer_side) &&
                spec.shorter_side <= spec.longer_side)) {
    return FailedPrecondition("model.bad_preprocessing",
                              "shorter_side or longer_side is out of range");
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
  if (spec.resize_mode == ResizeMode::kFit) return PlanFit({height, width}, spec);
  const ImageSize& model = spec.sizes.front();
  const auto enlarged = [&](int64_t side) {
    return static_cast<int64_t>(std::floor(static_cast<double>(side) / spec.crop_fraction));
  };
  const ImageSize cover{enlarged(model.height), enlarged(model.width)};
  ImageSize resized = cover;
  if (spec.resize_mode == ResizeMode::kShortestEdge) {
    // The two may differ by a pixel on the longer side, in timm as here.
    resized = cover.height == cover.width ? ResizeShorterSide(height, width, cover.height)
                                          : ResizeToCover(height, width, cover);
  }
  ResizePlan plan{.resized_height = resized.height,
                  .resized_width = resized.width,
                  .height = model.height,
                  .width = model.width};
  const auto offset = [&](int64_t rest) {
    return spec.floor_crop_offset ? rest / 2 : Round(static_cast<double>(rest) / 2);
  };
  plan.top = offset(resized.height - model.height);
  plan.left = offset(resized.width - model.width);
  FOVEA_CHECK(plan.top >= 0 && plan.left >= 0 && plan.top + plan.height <= resized.height &&
              plan.left + plan.width <= resized.width);
  return plan;
}

}  // namespace fovea
