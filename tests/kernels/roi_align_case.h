// A call of RoIAlign, and what it should give.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>

#include "tests/kernels/roi_align_truth.h"
#include "tests/kernels/rounding.h"

namespace fovea::kernels {

struct RoiAlignCase {
  at::Tensor input, rois;
  double scale = 0.5;
  int64_t h = 3, w = 4, sampling = 2;
  bool aligned = true;
};

template <class T>
Rounded ExpectedOf(const RoiAlignCase& c) {
  const RoiAlignTruth<T> truth{c.input.size(2), c.input.size(3), static_cast<T>(c.scale), c.h, c.w,
                               c.sampling,      c.aligned};
  const at::Tensor input = c.input.to(at::kDouble),
                   rois = c.rois.to(c10::CppTypeToScalarType<T>::value).contiguous();
  const auto pixels = input.accessor<double, 4>();
  const at::Tensor value = at::empty({rois.size(0), input.size(1), c.h, c.w}, at::kDouble);
  const at::Tensor squares = at::empty_like(value);
  auto values = value.accessor<double, 4>(), all_squares = squares.accessor<double, 4>();
  const double sums = PrecisionOf(c.input.scalar_type()).sums;
  for (int64_t k = 0; k < rois.size(0); ++k) {
    const T* roi = rois.const_data_ptr<T>() + 5 * k;
    for (int64_t channel = 0; channel < input.size(1); ++channel) {
      const auto plane = pixels[static_cast<int64_t>(roi[0])][channel];
      const auto pixel = [&](int64_t row, int64_t column) { return plane[row][column]; };
      for (int64_t y = 0; y < c.h; ++y) {
        for (int64_t x = 0; x < c.w; ++x) {
          const RoiAlignAverage average = truth.At(roi, y, x, pixel);
          const double margin = average.size * sums;
          values[k][channel][y][x] = average.value;
          // A term's weight is a product, of differences.
          all_squares[k][channel][y][x] = margin * margin * (average.terms + 4);
        }
      }
    }
  }
  return {value, squares};
}

inline Rounded ExpectedOf(const RoiAlignCase& c) {
  return c.input.scalar_type() == at::kDouble ? ExpectedOf<double>(c) : ExpectedOf<float>(c);
}

}  // namespace fovea::kernels
