#include "model_zoo/layers/patch_embed.h"

#include <ATen/ATen.h>

#include <optional>

namespace fovea::models {
namespace {

// A type of elements of so many bytes, to copy rows of a patch as one; absent for other sizes.
std::optional<c10::ScalarType> ElementOf(int64_t bytes) {
  switch (bytes) {
    case 8:
      return at::kLong;
    case 16:
      return at::kComplexDouble;
    default:
      return std::nullopt;
  }
}

// [N, 3, H, W] -> [N, H/height, W/width, 3, height, width], a view.
at::Tensor Cut(const at::Tensor& pixels, int64_t height, int64_t width) {
  return pixels.unflatten(3, {-1, width}).unflatten(2, {-1, height}).permute({0, 2, 4, 1, 3, 5});
}

}  // namespace

PatchEmbed::PatchEmbed(int64_t patch, int64_t channels)
    : patch_(patch), proj_(Add<Linear>("proj", at::IntArrayRef{channels, 3, patch, patch})) {
  proj_->KeepPrecision();
}

PatchEmbed::PatchEmbed(int64_t patch, int64_t channels, double norm_epsilon)
    : PatchEmbed(patch, channels) {
  norm_ = Add<LayerNorm>("norm", channels, norm_epsilon);
}

at::Tensor PatchEmbed::forward(const at::Tensor& pixels) const {
  const at::Tensor tokens = proj_->forward(Patches(pixels).flatten(3, 5).flatten(1, 2));
  return norm_ ? norm_->forward(tokens) : tokens;
}

at::Tensor PatchEmbed::Patches(const at::Tensor& pixels) const {
  const at::Tensor cut = Cut(pixels, patch_, patch_);
  at::Tensor patches = at::empty(cut.sizes(), pixels.options().dtype(activations()));
  // On the CPU ATen gathers and casts short rows element by element. To cast first, and then gather
  // rows that are one element each, is several times as fast (docs/results/models_cpu.md). (It has
  // no gradient: only what is prepared casts.)
  const bool casts = pixels.scalar_type() != patches.scalar_type();
  const auto row = ElementOf(patch_ * static_cast<int64_t>(patches.element_size()));
  if (!pixels.is_cpu() || !casts || !row) return patches.copy_(cut);
  const at::Tensor cast = at::empty(pixels.sizes(), patches.options()).copy_(pixels);
  patches.view(*row).copy_(Cut(cast.view(*row), patch_, 1));
  return patches;
}

}  // namespace fovea::models
