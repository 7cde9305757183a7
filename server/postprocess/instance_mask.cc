#include "server/postprocess/instance_mask.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "base/run_lengths.h"

namespace fovea {
namespace {

// Of one axis: the pixels that may show the object, and where each of their middles lies among the
// places of the probabilities, with a place of none before the first and behind the last.
struct Axis {
  int64_t first = 0;             // pixel
  std::vector<int64_t> lower;    // the place before it
  std::vector<float> of_higher;  // the share of the next
};

// Pixels of [0, pixels) from `from` until `to`; `place(pixel)` tells their places.
template <typename Place>
Axis AxisOf(int64_t from, int64_t to, int64_t pixels, int64_t places, const Place& place) {
  Axis axis{.first = std::clamp<int64_t>(from, 0, pixels), .lower = {}, .of_higher = {}};
  for (int64_t i = axis.first; i < std::min(to, pixels); ++i) {
    const double at = std::clamp(place(i), 0.0, static_cast<double>(places - 1));
    const int64_t lower = std::min(static_cast<int64_t>(at), places - 2);
    axis.lower.push_back(lower);
    axis.of_higher.push_back(static_cast<float>(at - static_cast<double>(lower)));
  }
  return axis;
}

Axis AxisOf(float low, float high, int64_t pixels, int64_t side, MaskPasting pasting) {
  const int64_t places = side + 2;
  if (pasting == MaskPasting::kTorchvision) {
    // In fp32, as there: which whole pixel it is depends on it.
    const float centre = (high + low) * 0.5F;
    const float half =
        (high - low) * 0.5F * (static_cast<float>(places) / static_cast<float>(side));
    const auto first = static_cast<int64_t>(centre - half);
    const auto last = static_cast<int64_t>(centre + half);
    const int64_t length = std::max<int64_t>(last - first + 1, 1);
    const double step = static_cast<double>(places) / static_cast<double>(length);
    return AxisOf(first, first + length, pixels, places, [=](int64_t pixel) {
      return (static_cast<double>(pixel - first) + 0.5) * step - 0.5;
    });
  }
  if (!(high > low)) return {};
  const double step = static_cast<double>(side) / (static_cast<double>(high) - low);
  // Half a place beyond the box there is nothing left.
  const double beyond = 0.5 / step;
  return AxisOf(static_cast<int64_t>(std::floor(low - beyond)),
                static_cast<int64_t>(std::ceil(high + beyond)), pixels, places, [=](int64_t pixel) {
                  return (static_cast<double>(pixel) + 0.5 - low) * step + 0.5;
                });
}

}  // namespace

PastedMask PasteMask(std::span<const float> probabilities, int64_t side, const Box& box,
                     const ImageSize& picture, MaskPasting pasting) {
  FOVEA_CHECK(std::ssize(probabilities) == side * side && side > 0);
  for (const float end : {box.left, box.top, box.right, box.bottom}) {
    if (!std::isfinite(end)) return {};
  }
  constexpr float kLeast = 0.5F;
  const Axis across = AxisOf(box.left, box.right, picture.width, side, pasting);
  const Axis down = AxisOf(box.top, box.bottom, picture.height, side, pasting);
  PastedMask mask{.left = across.first,
                  .top = down.first,
                  .height = std::ssize(down.lower),
                  .width = std::ssize(across.lower),
                  .columns = {},
                  .pixels = 0};
  if (mask.height == 0 || mask.width == 0) return {};
  mask.columns.resize(mask.width * mask.height);
  const auto at = [&](int64_t row, int64_t column) {
    const bool inside = row > 0 && row <= side && column > 0 && column <= side;
    return inside ? probabilities[(row - 1) * side + column - 1] : 0.0F;
  };
  // Down the picture, the pixels that lie between the same two places.
  struct Stretch {
    int64_t row, begin, end;
  };
  std::vector<Stretch> stretches;
  for (int64_t y = 0; y < mask.height; ++y) {
    if (stretches.empty() || stretches.back().row != down.lower[y]) {
      stretches.push_back({down.lower[y], y, y});
    }
    ++stretches.back().end;
  }
  std::vector<float> profile(side + 2);
  for (int64_t x = 0; x < mask.width; ++x) {
    const int64_t column = across.lower[x];
    for (int64_t row = 0; row < side + 2; ++row) {
      profile[row] = std::lerp(at(row, column), at(row, column + 1), across.of_higher[x]);
    }
    // Between two places that are both of the object, or both not, every pixel is so.
    uint8_t* to = mask.columns.data() + x * mask.height;
    for (const auto& [row, y, end] : stretches) {
      const float above = profile[row], below = profile[row + 1];
      if ((above >= kLeast) == (below >= kLeast)) {
        std::fill(to + y, to + end, above >= kLeast ? 1 : 0);
      } else {
        for (int64_t i = y; i < end; ++i) {
          to[i] = std::lerp(above, below, down.of_higher[i]) >= kLeast ? 1 : 0;
        }
      }
    }
    mask.pixels += std::count(to, to + mask.height, 1);
  }
  return mask;
}

std::string RunLengthsOf(const PastedMask& mask, const ImageSize& picture) {
  RunLengths runs;
  runs.Add(false, mask.left * picture.height);
  for (int64_t x = 0; x < mask.width; ++x) {
    runs.Add(false, mask.top);
    const uint8_t* column = mask.columns.data() + x * mask.height;
    for (int64_t y = 0; y < mask.height;) {
      const uint8_t of_mask = column[y];
      const void* const next = std::memchr(column + y, 1 - of_mask, mask.height - y);
      const int64_t end =
          next == nullptr ? mask.height : static_cast<const uint8_t*>(next) - column;
      runs.Add(of_mask != 0, end - y);
      y = end;
    }
    runs.Add(false, picture.height - mask.top - mask.height);
  }
  runs.Add(false, (picture.width - mask.left - mask.width) * picture.height);
  return runs.Text();
}

std::vector<uint8_t> GreyRows(const PastedMask& mask) {
  std::vector<uint8_t> rows(mask.columns.size());
  for (int64_t x = 0; x < mask.width; ++x) {
    for (int64_t y = 0; y < mask.height; ++y) {
      rows[y * mask.width + x] = mask.columns[x * mask.height + y] != 0 ? 255 : 0;
    }
  }
  return rows;
}

}  // namespace fovea
