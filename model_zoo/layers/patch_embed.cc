#include "model_zoo/layers/patch_embed.h"

#include <ATen/ATen.h>

namespace fovea::models {

PatchEmbed::PatchEmbed(int64_t patch, int64_t channels)
    : patch_(patch), proj_(Add<Linear>("proj", at::IntArrayRef{channels, 3, patch, patch})) {
  proj_->KeepPrecision();
}

PatchEmbed::PatchEmbed(int64_t patch, int64_t channels, double norm_epsilon)
    : PatchEmbed(patch, channels) {
  norm_ = Add<LayerNorm>("norm", channels, norm_epsilon);
}

at::Tensor PatchEmbed::forward(const at::Tensor& pixels) const {
  const int64_t rows = pixels.size(2) / patch_;
  const int64_t columns = pixels.size(3) / patch_;
  // [N, 3, rows, patch, columns, patch] -> [N, rows, columns, 3, patch, patch]
  const at::Tensor cut = pixels.unflatten(3, {columns, patch_})
                             .unflatten(2, {rows, patch_})
                             .permute({0, 2, 4, 1, 3, 5});
  // One pass that gathers and casts.
  at::Tensor patches = at::empty(cut.sizes(), pixels.options().dtype(activations()));
  patches.copy_(cut);
  const at::Tensor tokens = proj_->forward(patches.flatten(3, 5).flatten(1, 2));
  return norm_ ? norm_->forward(tokens) : tokens;
}

}  // namespace fovea::models
