#include "server/imaging/orient.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace fovea {
namespace {

// Rows of a transposed picture are columns of the stored one: tiles of 64 x 64 pixels (12 KB) keep
// both in the cache.
constexpr int kTile = 64;

}  // namespace

RgbImage Upright(const RgbImage& stored, int orientation) {
  FOVEA_CHECK(orientation >= 1 && orientation <= 8);
  // Walking the upright picture right and down is walking the stored one along these. Orientation
  // by orientation: is the stored picture seen mirrored left to right, top to bottom, and are its
  // axes swapped?
  const bool swapped = orientation >= 5;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;

  const ptrdiff_t column_step = from_right ? -3 : 3;
  const ptrdiff_t row_step = ptrdiff_t{3} * stored.width * (from_bottom ? -1 : 1);
  const uint8_t* origin = stored.pixels.get();
  if (from_right) origin += ptrdiff_t{3} * (stored.width - 1);
  if (from_bottom) origin += ptrdiff_t{3} * stored.width * (stored.height - 1);
  const ptrdiff_t step_right = swapped ? row_step : column_step;
  const ptrdiff_t step_down = swapped ? column_step : row_step;

  RgbImage upright = swapped ? RgbImage::Allocate(stored.width, stored.height)
                             : RgbImage::Allocate(stored.height, stored.width);
  for (int top = 0; top < upright.height; top += kTile) {
    for (int left = 0; left < upright.width; left += kTile) {
      const int bottom = std::min(top + kTile, upright.height);
      const int right = std::min(left + kTile, upright.width);
      for (int y = top; y < bottom; ++y) {
        uint8_t* to = upright.pixels.get() + 3 * (ptrdiff_t{y} * upright.width + left);
        const uint8_t* from = origin + y * step_down + left * step_right;
        for (int x = left; x < right; ++x, to += 3, from += step_right) std::memcpy(to, from, 3);
      }
    }
  }
  return upright;
}

}  // namespace fovea
