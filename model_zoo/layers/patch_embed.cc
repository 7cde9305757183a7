#include "model_zoo/layers/patch_embed.h"

#include <ATen/ATen.h>

#include <optional>

namespace fovea::models {
namespace {

// A type of so many bytes, for numbers that are moved and not read; absent where there is none.
std::optional<c10::ScalarType> TypeOf(int64_t bytes) {
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
  // ATen gathers short rows number by number. A whole row as one number is several times as fast,
  // casting included, but not differentiable.
  const auto row = TypeOf(patch_ * static_cast<int64_t>(patches.element_size()));
  if (prepared() && row) {
    const at::Tensor cast = pixels.to(activations()).contiguous();
    patches.view(*row).copy_(Cut(cast.view(*row), patch_, 1));
  } else {
    patches.copy_(cut);
  }
  return patches;
}

}  // namespace fovea::models
