#include "model_zoo/folder/shape_buckets.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace fovea::models {

std::vector<ImageSize> ShapeBuckets(int64_t shorter_side, int64_t longer_side, int64_t stride) {
  const auto most_short = static_cast<double>(shorter_side),
             most_long = static_cast<double>(longer_side);
  const auto padded = [stride](double side) {
    const auto whole = static_cast<int64_t>(std::ceil(side));
    return (whole + stride - 1) / stride * stride;
  };
  std::set<ImageSize> sizes;
  for (const double format : {1.0, 4.0 / 3, 3.0 / 2, 2.0, 3.0, 6.0, most_long / most_short}) {
    const double short_side = std::min(most_short, most_long / format);
    const int64_t height = padded(short_side), width = padded(short_side * format);
    sizes.insert({height, width});
    sizes.insert({width, height});
  }
  std::vector<ImageSize> largest_first(sizes.begin(), sizes.end());
  std::ranges::stable_sort(largest_first, [](const ImageSize& a, const ImageSize& b) {
    return a.height * a.width > b.height * b.width;
  });
  return largest_first;
}

}  // namespace fovea::models
