// A coarse map of numbers, drawn over the picture that it is about.
#pragma once

#include <cstdint>
#include <span>

#include "server/core/image_transform.h"
#include "server/imaging/image.h"

namespace fovea {

// Numbers over a model's input, row by row, [rows, columns]; what is no finite number counts as the
// least of the others.
struct HeatMap {
  std::span<const float> values;
  int rows = 0;
  int columns = 0;
};

enum class HeatForm {
  kOverlay,  // over the picture, which becomes grey
  kAlone,
};

// A picture of `image`'s size, which was made the model's input as `seen` says. Between the middles
// of the map's places numbers are interpolated. Colours are viridis's, from the least number to the
// largest; equal numbers are all the least. What the model did not see has no colour: in kOverlay
// the picture in grey and darker, otherwise black. Throws std::bad_alloc.
RgbImage DrawHeat(const RgbImage& image, const ImageTransform& seen, const HeatMap& heat,
                  HeatForm form);

// Marks a place of `drawn`, in its pixels: a white ring with dark edges. Throws std::bad_alloc.
void MarkPlace(RgbImage& drawn, double x, double y);

// What drawing one such picture takes besides the image, its PNG among it.
int64_t HeatBytes(int64_t height, int64_t width);

}  // namespace fovea
