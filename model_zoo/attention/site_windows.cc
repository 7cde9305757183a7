#include "model_zoo/attention/site_windows.h"

#include <ATen/ATen.h>

#include <array>

namespace fovea::models {

SiteWindows::SiteWindows(const ModuleSite& site) : grid_(site.grid), padded_(site.grid, {1, 1}) {
  std::array<int64_t, 2> window, shift = {0, 0};
  if (site.windowed) {
    const ShiftedWindows layout({site.grid.height, site.grid.width}, site.window,
                                site.block % 2 == 1);
    window = layout.window;
    shift = layout.shift;
  } else if (site.trained != Grid()) {
    window = {site.trained.height, site.trained.width};
  } else {
    return;
  }
  TORCH_INTERNAL_ASSERT(site.grid.prefix_tokens == 0, "windows hold tokens that lie on a map");
  grid_ = {.height = window[0], .width = window[1]};
  if (grid_ == site.grid) return;
  padded_ = PaddedMap(site.grid, window);
  windows_.emplace(padded_.size(), window, shift);
}

at::Tensor SiteWindows::Cut(const at::Tensor& tokens) const {
  if (!windows_) return tokens;
  return windows_->Cut(padded_.Pad(tokens).unsqueeze(1)).flatten(0, 1);
}

at::Tensor SiteWindows::Join(const at::Tensor& cut) const {
  if (!windows_) return cut;
  return padded_.Crop(windows_->Join(cut.unflatten(0, {-1, windows_->count()})).squeeze(1));
}

at::Tensor SiteWindows::JoinMaps(const at::Tensor& maps) const {
  if (!windows_) return maps;
  // [B, heads, windows, n, n]
  const at::Tensor weights = maps.unflatten(0, {-1, windows_->count()}).transpose(1, 2);
  return padded_.CropWeights(windows_->JoinWeights(weights));
}

}  // namespace fovea::models
