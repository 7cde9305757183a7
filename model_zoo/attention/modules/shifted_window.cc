#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/relative_position_bias.h"
#include "model_zoo/attention/windows.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {
namespace {

class ShiftedWindow final : public AttentionModule {
 public:
  ShiftedWindow(const ModuleSite& site, const Windows& windows, std::array<int64_t, 2> padded,
                std::shared_ptr<const AttentionCore> core)
      : heads_(site.heads),
        padded_(padded),
        windows_(windows),
        core_(std::move(core)),
        qkv_(Add<Linear>("qkv", site.channels, 3 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)),
        table_(AddParameter(
            "relative_position_bias_table",
            {(2 * windows.window()[0] - 1) * (2 * windows.window()[1] - 1), site.heads})) {}

  at::Tensor forward(const at::Tensor& tokens, const Grid& grid) const override {
    const at::Tensor qkv = Project(tokens, grid);
    // [B, heads, height, width, D]
    const at::Tensor mixed = core_->AttendWindows(qkv[0], qkv[1], qkv[2], windows_, Bias());
    return proj_->forward(
        WithoutPadding(mixed.permute({0, 2, 3, 1, 4}), grid).flatten(3).flatten(1, 2));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& grid) const override {
    const at::Tensor qkv = Project(tokens, grid);
    const at::Tensor map = core_->MapWindows(qkv[0], qkv[1], windows_, Bias());
    if (!Pads(grid)) return map;
    const at::Tensor real = at::arange(padded_[0] * padded_[1], map.options().dtype(at::kLong))
                                .view({1, padded_[0], padded_[1]});
    const at::Tensor kept = WithoutPadding(real, grid).flatten();
    return map.index_select(2, kept).index_select(3, kept);
  }

  at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const override {
    if (parameter != "relative_position_bias_table" || stored.dim() != 2 ||
        stored.sizes() == table_.sizes()) {
      return stored;
    }
    // The stored window is taken to be square, as timm does.
    const auto side = static_cast<int64_t>(std::llround(std::sqrt(stored.size(0))));
    if (side * side != stored.size(0) || side % 2 == 0) return stored;
    const int64_t window = (side + 1) / 2;
    return ResizeRelativePositionTable(stored, {window, window}, windows_.window());
  }

  void Prepare(const Placement& placement) override {
    PrepareChildren(placement);
    bias_ =
        RelativePositionBias(table_.detach(), windows_.window()).contiguous().to(placement.device);
    windows_.To(placement.device);
    table_.reset();
    ReleaseParameters();
    MarkPrepared(placement);
  }
  int64_t WeightBytes() const override {
    return Layer::WeightBytes() + (bias_.defined() ? static_cast<int64_t>(bias_.nbytes()) : 0);
  }

 private:
  bool Pads(const Grid& grid) const {
    return padded_[0] != grid.height || padded_[1] != grid.width;
  }

  // [3, B, heads, height, width, D] of the padded map.
  at::Tensor Project(const at::Tensor& tokens, const Grid& grid) const {
    at::Tensor map = tokens.unflatten(1, {grid.height, grid.width});
    if (Pads(grid)) {
      map =
          at::constant_pad_nd(map, {0, 0, 0, padded_[1] - grid.width, 0, padded_[0] - grid.height});
    }
    return qkv_->forward(map).unflatten(3, {3, heads_, -1}).permute({3, 0, 4, 1, 2, 5});
  }

  at::Tensor WithoutPadding(const at::Tensor& map, const Grid& grid) const {
    if (!Pads(grid)) return map;
    return map.narrow(1, 0, grid.height).narrow(2, 0, grid.width);
  }

  at::Tensor Bias() const {
    return bias_.defined() ? bias_ : RelativePositionBias(table_, windows_.window());
  }

  const int64_t heads_;
  const std::array<int64_t, 2> padded_;  // the map's size in whole windows
  Windows windows_;
  const std::shared_ptr<const AttentionCore> core_;
  const std::shared_ptr<Linear> qkv_;
  const std::shared_ptr<Linear> proj_;
  at::Tensor table_;
  at::Tensor bias_;  // of the prepared module, FP32 [heads, tokens, tokens]
};

}  // namespace

std::shared_ptr<AttentionModule> MakeShiftedWindow(const AttentionSpec& spec,
                                                   const ModuleSite& site,
                                                   const AttentionFactory& cores) {
  RefusePrefixTokens(site);
  const ShiftedWindows layout({site.grid.height, site.grid.width},
                              spec.window.value_or(site.window), site.block % 2 == 1);
  const int64_t tokens = layout.window[0] * layout.window[1];
  return std::make_shared<ShiftedWindow>(
      site, Windows(layout.padded, layout.window, layout.shift), layout.padded,
      cores.Core({.head_dim = site.channels / site.heads, .keys = tokens}));
}

}  // namespace fovea::models
