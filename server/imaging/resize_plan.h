// Where the pixels that a model takes come from: pure geometry, no pixels.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace fovea {

enum class Interpolation { kBilinear, kBicubic };

enum class ResizeMode {
  kShortestEdge,  // keep the aspect ratio and cut out the middle
  kSquash,        // each side for itself, whatever the aspect ratio, and cut out the middle
};

// How an image of any size becomes the model's. Follows timm's evaluation transforms
// (timm/data/transforms_factory.py, transforms_imagenet_eval), of which torchvision's Resize and
// CenterCrop are a case, to the pixel.
struct PreprocessSpec {
  int64_t height = 224;
  int64_t width = 224;
  ResizeMode resize_mode = ResizeMode::kShortestEdge;
  // The shorter side, with kSquash each, becomes floor(model's side / crop_fraction) before the
  // middle is cut out. In [0.01, 1]; 1 cuts off nothing of a square image. A double, because 0.9f
  // is not 0.9 and may round to another size.
  double crop_fraction = 0.875;
  Interpolation interpolation = Interpolation::kBicubic;

  int64_t bytes() const { return height * width * 3; }
};

// FAILED_PRECONDITION model.bad_preprocessing where `spec` describes nothing that can be done.
absl::Status CheckPreprocessSpec(const PreprocessSpec& spec);

// Resize to resized_height x resized_width, then keep the window of height x width at (top, left),
// which lies inside.
struct ResizePlan {
  int64_t resized_height = 0, resized_width = 0;
  int64_t top = 0, left = 0;
  int64_t height = 0, width = 0;

  bool operator==(const ResizePlan&) const = default;
};

// For an image of `height` x `width`, each at least 1. `spec` passes CheckPreprocessSpec.
ResizePlan PlanResize(int64_t height, int64_t width, const PreprocessSpec& spec);

}  // namespace fovea
