#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/vision/roi_align/implementations.h"
#include "kernels/vision/roi_align/samples.h"

namespace fovea::kernels {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Of one region, [bins, pixels]. `begin` and `end` are scalars; so sums round as in their type.
at::Tensor WeightsOfRegion(at::Tensor begin, at::Tensor end, const RoiAlignGrid& grid) {
  const double offset = grid.aligned ? 0.5 : 0.0;
  begin = begin * grid.spatial_scale - offset;
  at::Tensor size = end * grid.spatial_scale - offset - begin;
  if (!grid.aligned) size = size.clamp_min(1.0);
  const at::Tensor bin = size / grid.bins;
  const double bin_size = bin.item<double>();
  if (!std::isfinite(bin_size) || !std::isfinite(begin.item<double>())) {
    return at::full({grid.bins, grid.pixels}, kNaN, bin.options());
  }
  int64_t samples = grid.sampling;
  if (samples <= 0) {
    constexpr double kMost = roi_align::kMostSamples;
    samples = static_cast<int64_t>(std::clamp(std::ceil(bin_size), 0.0, kMost));
  }
  if (samples == 0) return at::zeros({grid.bins, grid.pixels}, bin.options());
  const at::Tensor first = begin + at::arange(grid.bins, bin.options()).unsqueeze(1) * bin;
  const at::Tensor place = first + (at::arange(samples, bin.options()) + 0.5) * bin / samples;
  const at::Tensor inside = place.ge(-1.0).logical_and(place.le(grid.pixels));
  const at::Tensor pixel = at::arange(grid.pixels, bin.options());
  const at::Tensor distance = (place.clamp(0.0, grid.pixels - 1.0).unsqueeze(-1) - pixel).abs();
  return ((1.0 - distance).clamp_min(0.0) * inside.unsqueeze(-1)).mean(1);
}

}  // namespace

at::Tensor RoiAlignWeightsReference(const at::Tensor& begin, const at::Tensor& end,
                                    const RoiAlignGrid& grid) {
  const at::Tensor begins = begin.detach().cpu(), ends = end.detach().cpu();
  std::vector<at::Tensor> weights;
  for (int64_t k = 0; k < begins.size(0); ++k) {
    weights.push_back(WeightsOfRegion(begins[k], ends[k], grid));
  }
  if (weights.empty()) return begin.new_zeros({0, grid.bins, grid.pixels});
  return at::stack(weights).to(begin.device());
}

at::Tensor RoiAlignReference(const RoiAlignInputs& in) {
  const at::ScalarType type = in.input.scalar_type();
  const at::Tensor input = in.input.to(in.rois.scalar_type());
  const std::vector<at::Tensor> roi = in.rois.detach().unbind(1);
  const at::Tensor missing = roi[0].ge(0).logical_and(roi[0].lt(input.size(0))).logical_not();
  const at::Tensor image = roi[0].masked_fill(missing, 0).to(at::kLong);
  const auto weights_of = [&](int axis, int64_t bins, int64_t pixels) {
    return RoiAlignWeights(roi[1 + axis], roi[3 + axis],
                           {in.spatial_scale, bins, pixels, in.sampling, in.aligned})
        .masked_fill(missing.view({-1, 1, 1}), kNaN);
  };
  const at::Tensor rows = weights_of(1, in.h, input.size(2));     // [K, h, H]
  const at::Tensor columns = weights_of(0, in.w, input.size(3));  // [K, w, W]

  std::vector<at::Tensor> outputs;
  for (int64_t k = 0; k < in.rois.size(0); ++k) {
    // Without the pixels that weigh nothing: a NaN there would.
    const at::Tensor weighs =
        at::logical_and(rows[k].ne(0).any(0).unsqueeze(1), columns[k].ne(0).any(0));
    const at::Tensor pixels =
        at::where(weighs, input.index_select(0, image.narrow(0, k, 1)).squeeze(0),
                  at::zeros({}, input.options()));
    outputs.push_back(at::matmul(at::matmul(rows[k], pixels), columns[k].t()));  // [C, h, w]
  }
  if (outputs.empty()) return in.input.new_empty({0, input.size(1), in.h, in.w});
  return at::stack(outputs).to(type);
}

}  // namespace fovea::kernels
