#include "model_zoo/layers/patch_merging.h"

#include <ATen/ATen.h>

namespace fovea::models {

PatchMerging::PatchMerging(int64_t in, int64_t out, double norm_epsilon)
    : norm_(Add<LayerNorm>("norm", 4 * in, norm_epsilon)),
      reduction_(Add<Linear>("reduction", 4 * in, out, /*bias=*/false)) {}

at::Tensor PatchMerging::forward(const at::Tensor& tokens, const Grid& grid) const {
  at::Tensor map = tokens.unflatten(1, {grid.height, grid.width});
  if (grid.height % 2 != 0 || grid.width % 2 != 0) {
    map = at::constant_pad_nd(map, {0, 0, 0, grid.width % 2, 0, grid.height % 2});
  }
  // [B, rows, 2 (down), columns, 2 (right), C] -> neighbours in the published order: down the left
  // column, then down the right one.
  const at::Tensor neighbours =
      map.unflatten(2, {-1, 2}).unflatten(1, {-1, 2}).permute({0, 1, 3, 4, 2, 5});
  return reduction_->forward(norm_->forward(neighbours.flatten(3).flatten(1, 2)));
}

}  // namespace fovea::models
