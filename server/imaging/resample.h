// Antialiased resizing of 8-bit RGB, bit-equal to Image.resize of Pillow 13. (Older ones filter
// along rows first whatever the picture's shape: GoesDownFirst.)
//
// As in Pillow (src/libImaging/Resample.c): separable, with the result of the first pass rounded to
// 8 bits; a filter as wide as the scale when shrinking;
// weights in fixed point with 22 bits. Only the rows and columns that the window needs are
// computed, to the same bits.
//
// Not ATen's antialiased resize of bytes: with its 16-bit weights 3 values in 1,000 are one level
// off Pillow's and about one in a million two; it computes what the crop then drops, which for an
// image of 1 x 1000 pixels is nearly all of 200 MB; and without it imaging needs no LibTorch.
#pragma once

#include <cstdint>

#include "server/imaging/resize_plan.h"

namespace fovea {

// True if columns are filtered before rows: Pillow 13's rule, which saves work on tall pictures.
constexpr bool GoesDownFirst(int64_t height, int64_t width, const ResizePlan& plan) {
  const int64_t fewer = height - plan.resized_height;
  return fewer > 0 && fewer > 2 * (width - plan.resized_width);
}

// Resizes the `box` of `rgb` [height, width, 3] and writes the plan's window to `out` [plan.height,
// plan.width, 3]; pixels outside of the box count as far as the filter reaches, as in Pillow. A
// side that is taken whole and keeps its size is copied, not filtered. On the calling thread.
// Throws std::bad_alloc.
void Resample(const uint8_t* rgb, int64_t height, int64_t width, const SourceBox& box,
              const ResizePlan& plan, Interpolation interpolation, uint8_t* out);

// The definition of the above, as plain loops.
void ResampleReference(const uint8_t* rgb, int64_t height, int64_t width, const SourceBox& box,
                       const ResizePlan& plan, Interpolation interpolation, uint8_t* out);

}  // namespace fovea
