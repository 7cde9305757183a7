#include "model_zoo/attention/padded_map.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "model_zoo/layers/linear_chain.h"

namespace fovea::models {
namespace {

int64_t UpToWhole(int64_t size, int64_t window) { return (size + window - 1) / window * window; }

}  // namespace

std::array<int64_t, 2> WithinMap(int64_t side, const Grid& grid) {
  return {std::min(side, grid.height), std::min(side, grid.width)};
}

PaddedMap::PaddedMap(const Grid& grid, const std::array<int64_t, 2>& window,
                     const std::array<int64_t, 2>& shift)
    : grid_(grid),
      size_{UpToWhole(grid.height, window[0]), UpToWhole(grid.width, window[1])},
      shift_(shift) {}

at::Tensor PaddedMap::Places(int axis, c10::Device device) const {
  const int64_t size = axis == 0 ? grid_.height : grid_.width;
  const at::Tensor places = at::arange(size, at::TensorOptions(device).dtype(at::kLong));
  // Rows that roll around follow the grid's end, and where the map ends go on at its start.
  return at::where(places < shift_[axis], (places + size).remainder(size_[axis]), places);
}

at::Tensor PaddedMap::Pad(const at::Tensor& tokens) const {
  const at::Tensor map = tokens.unflatten(1, {grid_.height, grid_.width});
  if (!Pads()) return map;
  if (Moves()) {
    const c10::Device device = map.device();
    const at::Tensor rows =
        at::zeros({map.size(0), size_[0], grid_.width, map.size(3)}, map.options())
            .index_copy_(1, Places(0, device), map);
    return at::zeros({map.size(0), size_[0], size_[1], map.size(3)}, map.options())
        .index_copy_(2, Places(1, device), rows);
  }
  return at::constant_pad_nd(map, {0, 0, 0, size_[1] - grid_.width, 0, size_[0] - grid_.height});
}

at::Tensor PaddedMap::ProjectNormed(const Linear& linear, const LayerNorm* norm,
                                    const at::Tensor& tokens) const {
  if (norm != nullptr && Pads()) return linear.forward(Pad(norm->forward(tokens)));
  return RunNormed(linear, norm, Pad(tokens));
}

at::Tensor PaddedMap::Crop(const at::Tensor& map) const {
  if (!Pads()) return map.flatten(1, 2);
  if (Moves()) {
    return map.index_select(1, Places(0, map.device()))
        .index_select(2, Places(1, map.device()))
        .flatten(1, 2);
  }
  return map.narrow(1, 0, grid_.height).narrow(2, 0, grid_.width).flatten(1, 2);
}

at::Tensor PaddedMap::CropWeights(const at::Tensor& weights) const {
  if (!Pads()) return weights;
  const at::Tensor places = at::arange(size_[0] * size_[1], weights.options().dtype(at::kLong));
  const at::Tensor kept = Crop(places.view({1, size_[0], size_[1]})).flatten();
  return weights.index_select(2, kept).index_select(3, kept);
}

at::Tensor SplitQkv(const at::Tensor& projected, int64_t heads) {
  return projected.unflatten(3, {3, heads, -1}).permute({3, 0, 4, 1, 2, 5});
}

}  // namespace fovea::models
