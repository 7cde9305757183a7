// Where the pixels that a model takes come from: pure geometry, no pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "server/core/image_size.h"

namespace fovea {

enum class Interpolation { kBilinear, kBicubic };

enum class ResizeMode {
  kShortestEdge,  // keep the aspect ratio and cut out the middle
  kSquash,        // each side for itself, whatever the aspect ratio, and cut out the middle
  kFit,           // keep the aspect ratio and the whole image; the model's input is filled up
};

// How an image of any size becomes the model's. Follows timm's evaluation transforms
// (timm/data/transforms_factory.py, transforms_imagenet_eval), of which torchvision's Resize and
// CenterCrop are a case, to the pixel; and with kFit torchvision's GeneralizedRCNNTransform
// (torchvision/models/detection/transform.py), but that sides are computed in whole numbers.
struct PreprocessSpec {
  // That the model runs at, 1 or more. With kFit each image goes to one of them; otherwise all
  // become the first.
  std::vector<ImageSize> sizes = {{224, 224}};
  ResizeMode resize_mode = ResizeMode::kShortestEdge;
  // The shorter side, with kSquash each, becomes floor(model's side / crop_fraction) before the
  // middle is cut out. In [0.01, 1]; 1 cuts off nothing of a square image. A double, because 0.9f
  // is not 0.9 and may round to another size.
  double crop_fraction = 0.875;
  // An offset of the crop between two pixels is rounded down, as transformers does, and not to the
  // even one.
  bool floor_crop_offset = false;
  // kFit: the shorter side becomes shorter_side, or as much less as keeps the longer one from being
  // more than longer_side, or than one of the sizes holds. 0, both: as large as they hold.
  int64_t shorter_side = 0, longer_side = 0;
  Interpolation interpolation = Interpolation::kBicubic;
  // Large JPEGs may be decoded smaller (jpeg_scale.h), not as Pillow and timm have them. They are
  // resized to the same plan.
  bool fast_decode = false;
};

// FAILED_PRECONDITION model.bad_preprocessing where `spec` describes nothing that can be done.
absl::Status CheckPreprocessSpec(const PreprocessSpec& spec);

// Resize to resized_height x resized_width, then keep the window of height x width at (top, left),
// which lies inside. `size`: which of the model's sizes it is for; the window is no larger.
struct ResizePlan {
  int64_t resized_height = 0, resized_width = 0;
  int64_t top = 0, left = 0;
  int64_t height = 0, width = 0;
  size_t size = 0;

  int64_t bytes() const { return height * width * 3; }

  bool operator==(const ResizePlan&) const = default;
};

// The part of an image's pixels that is resized, which may begin and end within one.
struct SourceBox {
  double top = 0, left = 0;
  double height = 0, width = 0;

  static SourceBox Whole(int64_t height, int64_t width) {
    return {.height = static_cast<double>(height), .width = static_cast<double>(width)};
  }
};

// For an image of `height` x `width`, each at least 1. `spec` passes CheckPreprocessSpec.
ResizePlan PlanResize(int64_t height, int64_t width, const PreprocessSpec& spec);

}  // namespace fovea
