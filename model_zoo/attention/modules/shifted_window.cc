#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <utility>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/padded_map.h"
#include "model_zoo/attention/relative_position_bias.h"
#include "model_zoo/attention/windows.h"
#include "model_zoo/layers/linear_chain.h"

namespace fovea::models {
namespace {

class ShiftedWindow final : public AttentionModule {
 public:
  ShiftedWindow(const ModuleSite& site, const Windows& windows, const PaddedMap& padded,
                std::shared_ptr<const AttentionCore> core)
      : heads_(site.heads),
        padded_(padded),
        windows_(windows),
        core_(std::move(core)),
        qkv_(Add<Linear>("qkv", site.channels, 3 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)),
        table_(AddSizedParameter(
            "relative_position_bias_table",
            {(2 * windows.window()[0] - 1) * (2 * windows.window()[1] - 1), site.heads})) {}

  const Linear* projection() const override { return proj_.get(); }

  at::Tensor Mix(at::Tensor tokens, const LayerNorm* norm, const Grid& /*grid*/) const override {
    const at::Tensor qkv = Project(tokens, norm);
    tokens.reset();
    // [B, heads, height, width, D]
    const at::Tensor mixed = core_->AttendWindows(qkv[0], qkv[1], qkv[2], windows_, Bias());
    return padded_.Crop(mixed.permute({0, 2, 3, 1, 4}).flatten(3));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor qkv = Project(tokens);
    return padded_.CropWeights(core_->MapWindows(qkv[0], qkv[1], windows_, Bias()));
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
    if (core_->ReadsWindowMasks()) windows_.KeepMask(placement.device);
    table_.reset();
    ReleaseParameters();
    MarkPrepared(placement);
  }

 private:
  int64_t OwnBytes() const override {
    return Layer::OwnBytes() + (bias_.defined() ? static_cast<int64_t>(bias_.nbytes()) : 0) +
           windows_.kept_bytes();
  }

  // [3, B, heads, height, width, D] of the padded map.
  at::Tensor Project(const at::Tensor& tokens, const LayerNorm* norm = nullptr) const {
    return SplitQkv(padded_.ProjectNormed(*qkv_, norm, tokens), heads_);
  }

  at::Tensor Bias() const {
    return bias_.defined() ? bias_ : RelativePositionBias(table_, windows_.window());
  }

  const int64_t heads_;
  const PaddedMap padded_;
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
  const std::array<int64_t, 2> unrolled = {0, 0};
  const PaddedMap padded(site.grid, layout.window, site.rolls_first ? layout.shift : unrolled);
  const int64_t tokens = layout.window[0] * layout.window[1];
  return std::make_shared<ShiftedWindow>(
      site, Windows(padded.size(), layout.window, layout.shift), padded,
      cores.Core({.head_dim = site.channels / site.heads, .keys = tokens}));
}

}  // namespace fovea::models
