#include "model_zoo/attention/relative_position_bias.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace fovea::models {
namespace {

// Where the learned distances lie on the axis of the new ones: 0, 1, 1 + q, 1 + q + q^2, ... and
// their negatives, with the q whose series ends at the largest new distance.
std::vector<double> LearnedPositions(int64_t learned, int64_t wanted) {
  const auto series = [&](double q) {
    double sum = 0, term = 1;
    for (int64_t i = 0; i < learned / 2; ++i, term *= q) sum += term;
    return sum;
  };
  double low = 1.01, high = 1.5, q = high;  // timm's bounds
  while (high - low > 1e-6) {
    q = (low + high) / 2;
    (series(q) > static_cast<double>(wanted / 2) ? high : low) = q;
  }
  std::vector<double> positions = {0};
  double position = 1, step = q;
  for (int64_t i = 0; i < learned / 2; ++i) {
    positions.push_back(position);
    positions.insert(positions.begin(), -position);
    position += step;
    step *= q;
  }
  return positions;
}

// [wanted, learned]: each new distance between its two learned neighbours, none beyond the ends.
at::Tensor Interpolation(int64_t learned, int64_t wanted) {
  at::Tensor weights = at::zeros({wanted, learned}, at::kDouble);
  const std::vector<double> positions = LearnedPositions(learned, wanted);
  auto weight = weights.accessor<double, 2>();
  for (int64_t i = 0; i < wanted; ++i) {
    const double x = static_cast<double>(i - wanted / 2);
    const auto right = std::ranges::lower_bound(positions, x);
    if (right == positions.begin()) {
      weight[i][0] = 1;
    } else if (right == positions.end()) {
      weight[i][learned - 1] = 1;
    } else {
      const int64_t at = right - positions.begin();
      const double share = (x - positions[at - 1]) / (positions[at] - positions[at - 1]);
      weight[i][at - 1] = 1 - share;
      weight[i][at] = share;
    }
  }
  return weights;
}

}  // namespace

at::Tensor RelativePositionBias(const at::Tensor& table, const std::array<int64_t, 2>& window) {
  const auto [h, w] = window;
  const auto distances = [&](int64_t size, int64_t of) {
    const at::Tensor place = at::arange(size, table.options().dtype(at::kLong));
    return (place.unsqueeze(1) - place.unsqueeze(0) + (size - 1)) * of;  // [size, size]
  };
  // [h, w, h, w]
  const at::Tensor index =
      distances(h, 2 * w - 1).view({h, 1, h, 1}) + distances(w, 1).view({1, w, 1, w});
  return table.index_select(0, index.flatten()).view({h * w, h * w, -1}).permute({2, 0, 1});
}

at::Tensor ResizeRelativePositionTable(const at::Tensor& table, const std::array<int64_t, 2>& from,
                                       const std::array<int64_t, 2>& to) {
  if (from == to) return table;
  const at::Tensor rows = Interpolation(2 * from[0] - 1, 2 * to[0] - 1);
  const at::Tensor columns = Interpolation(2 * from[1] - 1, 2 * to[1] - 1);
  const at::Tensor plane = table.to(at::kDouble).t().unflatten(1, {2 * from[0] - 1, -1});
  return at::matmul(at::matmul(rows, plane), columns.t())
      .flatten(1)
      .t()
      .to(at::kFloat)
      .contiguous();
}

}  // namespace fovea::models
