// The windows of a backbone that attends within windows, for modules whose operator knows none.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/padded_map.h"
#include "model_zoo/attention/windows.h"

namespace fovea::models {

// Cuts tokens into the windows that shifted_window would attend within: of site.window tokens, on a
// map padded with zero tokens at the bottom and at the right, rolled by half a window in every
// other block. Where a site was trained for another map (site.trained), the windows are of that
// map's size, and none is rolled: a detector with static keys of 28x28 tokens. Any other site is
// one window, prefix tokens included. Nothing is masked: in a rolled window at the border, tokens
// from both ends of the map meet, and padded ones take part.
class SiteWindows {
 public:
  explicit SiteWindows(const ModuleSite& site);

  // Of one window.
  const Grid& grid() const { return grid_; }

  // [B, site.grid.tokens(), channels] -> [B * windows, grid().tokens(), channels].
  at::Tensor Cut(const at::Tensor& tokens) const;
  // And back, without the padding.
  at::Tensor Join(const at::Tensor& cut) const;
  // The weights within each window, [B * windows, heads, n, n], as those of the whole map,
  // [B, heads, tokens, tokens]: zero between windows.
  at::Tensor JoinMaps(const at::Tensor& maps) const;

 private:
  Grid grid_;
  PaddedMap padded_;
  std::optional<Windows> windows_;  // absent: one window, the map as it is
};

}  // namespace fovea::models
