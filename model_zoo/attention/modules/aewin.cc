#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "kernels/attention/attention_maps.h"
#include "kernels/attention/axial_window_attention/op.h"
#include "model_zoo/attention/attention_time.h"
#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/padded_map.h"
#include "model_zoo/attention/relative_position_bias.h"
#include "model_zoo/attention/windows.h"
#include "model_zoo/layers/linear_chain.h"

namespace fovea::models {
namespace {

// What the logits of the three groups of heads are given.
struct Biases {
  at::Tensor rows;     // [heads/4, W, W]
  at::Tensor columns;  // [heads/4, H, H]
  at::Tensor window;   // [heads/2, w*w, w*w]
};

// Projections and learned biases, and how their numbers are kept.
class Aewin : public AttentionModule {
 public:
  Aewin(const ModuleSite& site, int64_t window)
      : heads_(site.heads),
        rows_({1, site.grid.width}),
        columns_({1, site.grid.height}),  // its distances are those of a row
        window_({window, window}),
        qkv_(Add<Linear>("qkv", site.channels, 3 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)),
        rows_table_(AddTable("bias_rows", rows_, site.heads / 4)),
        columns_table_(AddTable("bias_columns", columns_, site.heads / 4)),
        window_table_(AddTable("bias_window", window_, site.heads / 2)) {}

  at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const override {
    if (stored.dim() != 2) return stored;
    const int64_t distances = stored.size(0);
    if (parameter == "bias_window") {
      const auto side = static_cast<int64_t>(std::llround(std::sqrt(distances)));
      if (side * side != distances || side % 2 == 0) return stored;
      const int64_t window = (side + 1) / 2;
      return ResizeRelativePositionTable(stored, {window, window}, window_);
    }
    if ((parameter != "bias_rows" && parameter != "bias_columns") || distances % 2 == 0) {
      return stored;
    }
    return ResizeRelativePositionTable(stored, {1, (distances + 1) / 2},
                                       parameter == "bias_rows" ? rows_ : columns_);
  }

  void Prepare(const Placement& placement) override {
    PrepareChildren(placement);
    const Biases computed = ComputeBiases();
    const auto kept = [&](const at::Tensor& bias) {
      return bias.detach().contiguous().to(placement.device);
    };
    prepared_ = {kept(computed.rows), kept(computed.columns), kept(computed.window)};
    for (at::Tensor* table : {&rows_table_, &columns_table_, &window_table_}) table->reset();
    ReleaseParameters();
    MarkPrepared(placement);
  }

  const Linear* projection() const override { return proj_.get(); }

 protected:
  int64_t OwnBytes() const override {
    int64_t bytes = Layer::OwnBytes();
    for (const at::Tensor& bias : {prepared_.rows, prepared_.columns, prepared_.window}) {
      if (bias.defined()) bytes += static_cast<int64_t>(bias.nbytes());
    }
    return bytes;
  }

  Biases biases() const { return prepared_.rows.defined() ? prepared_ : ComputeBiases(); }

  // map [B, height, width, C] -> [3, B, heads, height, width, D].
  at::Tensor Project(const at::Tensor& map, const LayerNorm* norm = nullptr) const {
    return SplitQkv(RunNormed(*qkv_, norm, map), heads_);
  }
  // The same of tokens that are filled up to whole windows.
  at::Tensor Project(const PaddedMap& padded, const at::Tensor& tokens,
                     const LayerNorm* norm = nullptr) const {
    return SplitQkv(padded.ProjectNormed(*qkv_, norm, tokens), heads_);
  }

 private:
  at::Tensor AddTable(const std::string& name, const std::array<int64_t, 2>& window,
                      int64_t heads) {
    return AddSizedParameter(name, {(2 * window[0] - 1) * (2 * window[1] - 1), heads});
  }

  Biases ComputeBiases() const {
    return {RelativePositionBias(rows_table_, rows_),
            RelativePositionBias(columns_table_, columns_),
            RelativePositionBias(window_table_, window_)};
  }

  const int64_t heads_;
  const std::array<int64_t, 2> rows_;
  const std::array<int64_t, 2> columns_;
  const std::array<int64_t, 2> window_;
  const std::shared_ptr<Linear> qkv_;
  const std::shared_ptr<Linear> proj_;
  at::Tensor rows_table_;
  at::Tensor columns_table_;
  at::Tensor window_table_;
  Biases prepared_;  // FP32
};

// With the dense core, for which one kernel computes all heads.
class FusedAewin final : public Aewin {
 public:
  FusedAewin(const ModuleSite& site, int64_t window, int64_t shift, double scale)
      : Aewin(site, window),
        channels_(site.channels),
        window_(window),
        shift_(shift),
        scale_(scale),
        pads_(site.grid.height % window != 0 || site.grid.width % window != 0) {}

  at::Tensor Mix(at::Tensor tokens, const LayerNorm* norm, const Grid& grid) const override {
    const at::Tensor qkv = Project(tokens.unflatten(1, {grid.height, grid.width}), norm);
    const auto [rows, columns, window] = biases();
    const Padding padding = PaddingOf(tokens);
    tokens.reset();
    const AttentionRegion region;
    return kernels::AxialWindowAttention(qkv[0], qkv[1], qkv[2], window_, shift_, scale_, rows,
                                         columns, window, padding.key, padding.value)
        .permute({0, 2, 3, 1, 4})
        .flatten(3)
        .flatten(1, 2);
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& grid) const override {
    const at::Tensor qkv = Project(tokens.unflatten(1, {grid.height, grid.width}));
    const auto [rows, columns, window] = biases();
    return kernels::AxialWindowAttentionMap(qkv[0], qkv[1], window_, shift_, scale_, rows, columns,
                                            window, PaddingOf(tokens).key);
  }

 private:
  // What window heads see at padded places, [heads/2, D].
  struct Padding {
    std::optional<at::Tensor> key;
    std::optional<at::Tensor> value;
  };
  Padding PaddingOf(const at::Tensor& tokens) const {
    if (!pads_) return {};
    // [3, heads, D]
    const at::Tensor zero = Project(at::zeros({1, 1, 1, channels_}, tokens.options()))
                                .flatten(3, 4)
                                .select(1, 0)
                                .select(2, 0);
    const int64_t half = zero.size(1) / 2;
    return {zero[1].narrow(0, half, half), zero[2].narrow(0, half, half)};
  }

  const int64_t channels_;
  const int64_t window_;
  const int64_t shift_;
  const double scale_;
  const bool pads_;
};

// With any other core: rows, columns and windows one after the other.
class GroupedAewin final : public Aewin {
 public:
  GroupedAewin(const ModuleSite& site, int64_t window, int64_t shift, const AttentionFactory& cores)
      : Aewin(site, window),
        padded_(site.grid, {window, window}),
        rows_(site, Windows(MapOf(site), {1, site.grid.width}), cores),
        columns_(site, Windows(MapOf(site), {site.grid.height, 1}), cores),
        windows_(site, Windows(padded_.size(), {window, window}, {shift, shift}), cores) {}

  at::Tensor Mix(at::Tensor tokens, const LayerNorm* norm, const Grid& grid) const override {
    const at::Tensor qkv = Project(padded_, tokens, norm);
    tokens.reset();
    const auto [row_bias, column_bias, window_bias] = biases();
    const int64_t quarter = qkv.size(2) / 4;
    const auto attend = [](const Group& group, const at::Tensor& part, const at::Tensor& bias) {
      return group.core->AttendWindows(part[0], part[1], part[2], group.windows, bias)
          .permute({0, 2, 3, 1, 4})
          .flatten(3);
    };
    const at::Tensor real = Real(qkv, grid);
    return at::cat(
        {attend(rows_, real.narrow(2, 0, quarter), row_bias).flatten(1, 2),
         attend(columns_, real.narrow(2, quarter, quarter), column_bias).flatten(1, 2),
         padded_.Crop(attend(windows_, qkv.narrow(2, 2 * quarter, 2 * quarter), window_bias))},
        2);
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& grid) const override {
    const at::Tensor qkv = Project(padded_, tokens);
    const auto [row_bias, column_bias, window_bias] = biases();
    const int64_t quarter = qkv.size(2) / 4;
    const auto map = [](const Group& group, const at::Tensor& part, const at::Tensor& bias) {
      return group.core->MapWindows(part[0], part[1], group.windows, bias);
    };
    const at::Tensor real = Real(qkv, grid);
    return at::cat(
        {map(rows_, real.narrow(2, 0, quarter), row_bias),
         map(columns_, real.narrow(2, quarter, quarter), column_bias),
         padded_.CropWeights(map(windows_, qkv.narrow(2, 2 * quarter, 2 * quarter), window_bias))},
        1);
  }

  void Prepare(const Placement& placement) override {
    if (windows_.core->ReadsWindowMasks()) windows_.windows.KeepMask(placement.device);
    Aewin::Prepare(placement);
  }

 private:
  int64_t OwnBytes() const override { return Aewin::OwnBytes() + windows_.windows.kept_bytes(); }

  struct Group {
    Group(const ModuleSite& site, Windows shape, const AttentionFactory& cores)
        : windows(std::move(shape)),
          core(cores.Core({.head_dim = site.channels / site.heads, .keys = windows.tokens()})) {}
    Windows windows;
    std::shared_ptr<const AttentionCore> core;
  };

  static std::array<int64_t, 2> MapOf(const ModuleSite& site) {
    return {site.grid.height, site.grid.width};
  }
  // Rows and columns end where the map does.
  static at::Tensor Real(const at::Tensor& qkv, const Grid& grid) {
    return qkv.narrow(3, 0, grid.height).narrow(4, 0, grid.width);
  }

  const PaddedMap padded_;
  Group rows_;
  Group columns_;
  Group windows_;
};

}  // namespace

std::shared_ptr<AttentionModule> MakeAewin(const AttentionSpec& spec, const ModuleSite& site,
                                           const AttentionFactory& cores) {
  RefusePrefixTokens(site);
  RefuseUnevenHeads(site, 4);
  const auto [height, width, prefix_tokens] = site.grid;
  const int64_t window = std::min(spec.window.value_or(site.window), std::max(height, width));
  const bool shifts = site.block % 2 == 1 && window < std::min(height, width);
  const int64_t shift = shifts ? window / 2 : 0;
  if (cores.HasDenseCore()) {
    const double head_dim = static_cast<double>(site.channels / site.heads);
    return std::make_shared<FusedAewin>(site, window, shift,
                                        1 / (std::sqrt(head_dim) * spec.temperature));
  }
  return std::make_shared<GroupedAewin>(site, window, shift, cores);
}

}  // namespace fovea::models
