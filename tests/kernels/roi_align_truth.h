// What RoIAlign should give: the definition sample by sample, as torchvision computes it, with sums
// in fp64. Coordinates are T, the operator's, so that samples on the border fall to the same side.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace fovea::kernels {

// A bin's average, and that of its terms' sizes: 4 of each of its samples.
struct RoiAlignAverage {
  double value = 0.0;
  double size = 0.0;
  double terms = 0.0;
};

template <class T>
struct RoiAlignTruth {
  int64_t height, width;  // of the image
  T scale;
  int64_t h, w, sampling;
  bool aligned;

  // Bin (y, x) of the region `roi` (image, x1, y1, x2, y2); `pixel(row, column)` reads its image.
  template <class Pixel>
  RoiAlignAverage At(const T* roi, int64_t y, int64_t x, const Pixel& pixel) const {
    const T offset = aligned ? T(0.5) : T(0);
    const T left = roi[1] * scale - offset, top = roi[2] * scale - offset;
    T roi_width = roi[3] * scale - offset - left, roi_height = roi[4] * scale - offset - top;
    if (!aligned) {
      roi_width = std::max(roi_width, T(1));
      roi_height = std::max(roi_height, T(1));
    }
    const T bin_width = roi_width / w, bin_height = roi_height / h;
    const int rows = sampling > 0 ? sampling : std::max(T(0), std::ceil(bin_height));
    const int columns = sampling > 0 ? sampling : std::max(T(0), std::ceil(bin_width));
    RoiAlignAverage sum;
    for (int i = 0; i < rows; ++i) {
      const T sample_y = top + y * bin_height + (i + T(0.5)) * bin_height / rows;
      for (int j = 0; j < columns; ++j) {
        const T sample_x = left + x * bin_width + (j + T(0.5)) * bin_width / columns;
        if (sample_y < T(-1) || sample_y > height || sample_x < T(-1) || sample_x > width) continue;
        Add(std::clamp<double>(sample_y, 0, height - 1), std::clamp<double>(sample_x, 0, width - 1),
            pixel, sum);
      }
    }
    const double samples = std::max(rows * columns, 1);
    return {sum.value / samples, sum.size / samples, sum.terms};
  }

 private:
  template <class Pixel>
  void Add(double y, double x, const Pixel& pixel, RoiAlignAverage& sum) const {
    const int64_t low_y = static_cast<int64_t>(y), low_x = static_cast<int64_t>(x);
    const int64_t high_y = std::min(low_y + 1, height - 1), high_x = std::min(low_x + 1, width - 1);
    const double right = x - low_x, bottom = y - low_y;
    const auto add = [&](double weight, double term) {
      sum.value += weight * term;
      sum.size += weight * std::abs(term);
      sum.terms += 1.0;
    };
    add((1 - bottom) * (1 - right), pixel(low_y, low_x));
    add((1 - bottom) * right, pixel(low_y, high_x));
    add(bottom * (1 - right), pixel(high_y, low_x));
    add(bottom * right, pixel(high_y, high_x));
  }
};

}  // namespace fovea::kernels
