#include "server/imaging/orient.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/exif.h"

namespace fovea {
namespace {

// Rows of a transposed picture are columns of the stored one: tiles of 64 x 64 pixels (12 KB) keep
// both in the cache.
constexpr int kTile = 64;

}  // namespace

RgbImage Upright(const RgbImage& stored, int orientation) {
  FOVEA_CHECK(orientation >= 1 && orientation <= 8);
  const UprightTurn turn = TurnOf(orientation);
  RgbImage upright = turn.transposed ? RgbImage::Allocate(stored.width, stored.height)
                                     : RgbImage::Allocate(stored.height, stored.width);
  // Walking the upright picture right and down is walking the stored one along these.
  const ptrdiff_t column_step = 3, row_step = ptrdiff_t{3} * stored.width;
  ptrdiff_t step_right = turn.transposed ? row_step : column_step;
  ptrdiff_t step_down = turn.transposed ? column_step : row_step;
  const uint8_t* origin = stored.pixels.get();
  if (turn.mirrored) {
    origin += step_right * (upright.width - 1);
    step_right = -step_right;
  }
  if (turn.upside_down) {
    origin += step_down * (upright.height - 1);
    step_down = -step_down;
  }
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
