#include "model_zoo/attention/site_windows.h"

#include <ATen/ATen.h>
#include <ATen/TensorIndexing.h>

namespace fovea::models {

SiteWindows::SiteWindows(const ModuleSite& site)
    : site_(site.grid), padded_(site.grid), grid_(site.grid) {
  if (!site.windowed) return;
  TORCH_INTERNAL_ASSERT(site.grid.prefix_tokens == 0, "windows hold tokens that lie on a map");
  const ShiftedWindows layout({site.grid.height, site.grid.width}, site.window,
                              site.block % 2 == 1);
  grid_ = {.height = layout.window[0], .width = layout.window[1]};
  padded_ = {.height = layout.padded[0], .width = layout.padded[1]};
  if (grid_ != site_) windows_.emplace(layout.padded, layout.window, layout.shift);
}

at::Tensor SiteWindows::Cut(const at::Tensor& tokens) const {
  if (!windows_) return tokens;
  at::Tensor map = tokens.unflatten(1, {site_.height, site_.width});
  if (Pads()) {
    map = at::constant_pad_nd(
        map, {0, 0, 0, padded_.width - site_.width, 0, padded_.height - site_.height});
  }
  return windows_->Cut(map.unsqueeze(1)).flatten(0, 1);
}

at::Tensor SiteWindows::Join(const at::Tensor& cut) const {
  if (!windows_) return cut;
  return windows_->Join(cut.unflatten(0, {-1, windows_->count()}))
      .squeeze(1)
      .narrow(1, 0, site_.height)
      .narrow(2, 0, site_.width)
      .flatten(1, 2);
}

at::Tensor SiteWindows::JoinMaps(const at::Tensor& maps) const {
  if (!windows_) return maps;
  const int64_t places = padded_.tokens();
  // [B, heads, windows, n, n]
  const at::Tensor weights = maps.unflatten(0, {-1, windows_->count()}).transpose(1, 2);
  at::Tensor joined =
      at::zeros({weights.size(0), weights.size(1), places, places}, weights.options());
  using at::indexing::Slice;
  const at::Tensor& place = windows_->places();
  joined.index_put_({Slice(), Slice(), place.unsqueeze(2), place.unsqueeze(1)}, weights);
  if (!Pads()) return joined;
  const at::Tensor kept = at::arange(places, place.options())
                              .view({padded_.height, padded_.width})
                              .narrow(0, 0, site_.height)
                              .narrow(1, 0, site_.width)
                              .flatten();
  return joined.index_select(2, kept).index_select(3, kept);
}

void SiteWindows::To(c10::Device device) {
  if (windows_) windows_->To(device);
}

}  // namespace fovea::models
