#include "model_zoo/heads/anchors.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <utility>

namespace fovea::models {

std::array<int64_t, 2> AnchorStep(const ImageSize& input, const at::Tensor& map, int64_t stride,
                                  Conventions conventions) {
  if (conventions == Conventions::kMmdetection) return {stride, stride};
  return {input.height / map.size(2), input.width / map.size(3)};
}

at::Tensor AnchorShapes(const std::vector<double>& sizes, const std::vector<double>& ratios,
                        Conventions conventions) {
  const at::Tensor all_sizes = at::tensor(sizes, at::kFloat);
  const at::Tensor roots = at::tensor(ratios, at::kFloat).sqrt();
  const at::Tensor widths = (all_sizes.unsqueeze(0) * (1 / roots).unsqueeze(1)).flatten();
  const at::Tensor heights = (all_sizes.unsqueeze(0) * roots.unsqueeze(1)).flatten();
  const at::Tensor shapes = at::stack({-widths, -heights, widths, heights}, 1) / 2;
  return conventions == Conventions::kTorchvision ? shapes.round() : shapes;
}

Anchors::Anchors(at::Tensor shapes, std::array<int64_t, 2> step, int64_t map_width)
    : shapes_(std::move(shapes)), step_(step), map_width_(map_width) {}

at::Tensor Anchors::Boxes(const at::Tensor& index) const {
  const at::Tensor place = index.floor_divide(at_each_place());
  const at::Tensor y = place.floor_divide(map_width_) * step_[0];
  const at::Tensor x = place.remainder(map_width_) * step_[1];
  return shapes_.index_select(0, index.remainder(at_each_place())) + at::stack({x, y, x, y}, 1);
}

at::Tensor DecodeBoxes(const at::Tensor& deltas, const at::Tensor& references,
                       const std::array<double, 4>& weights, Conventions conventions) {
  const double most = std::log(1000.0 / 16);
  const double least =
      conventions == Conventions::kMmdetection ? -most : -std::numeric_limits<double>::infinity();
  const auto column = [](const at::Tensor& boxes, int64_t i) { return boxes.select(1, i); };
  const at::Tensor width = column(references, 2) - column(references, 0);
  const at::Tensor height = column(references, 3) - column(references, 1);
  const at::Tensor x =
      column(deltas, 0) / weights[0] * width + (column(references, 0) + 0.5 * width);
  const at::Tensor y =
      column(deltas, 1) / weights[1] * height + (column(references, 1) + 0.5 * height);
  const at::Tensor half_width =
      0.5 * ((column(deltas, 2) / weights[2]).clamp(least, most).exp() * width);
  const at::Tensor half_height =
      0.5 * ((column(deltas, 3) / weights[3]).clamp(least, most).exp() * height);
  return at::stack({x - half_width, y - half_height, x + half_width, y + half_height}, 1);
}

}  // namespace fovea::models
