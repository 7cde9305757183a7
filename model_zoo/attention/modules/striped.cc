// Cross-shaped windows and pales: the same stripes, of neighbouring lines or of lines that are
// spread over the map. Neither has a bias that depends on places, so the second is the first on a
// map whose lines have another order.
#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/padded_map.h"
#include "model_zoo/attention/windowed_heads.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {
namespace {

class Striped final : public AttentionModule {
 public:
  Striped(const ModuleSite& site, const std::array<int64_t, 2>& stripe, bool interlaced,
          const AttentionFactory& cores)
      : heads_(site.heads),
        padded_(site.grid, stripe),
        stripes_(Stripes(padded_.size(), stripe), site.channels / site.heads, cores),
        qkv_(Add<Linear>("qkv", site.channels, 3 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)) {
    if (interlaced) interlacing_.emplace(stripe);
  }

  at::Tensor forward(at::Tensor tokens, const Grid& /*grid*/) const override {
    at::Tensor qkv = Project(tokens);
    tokens.reset();
    at::Tensor mixed = stripes_.Attend(qkv[0], qkv[1], qkv[2]);
    qkv.reset();
    if (interlacing_) mixed = interlacing_->Spread(mixed);
    return proj_->forward(padded_.Crop(mixed));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor qkv = Project(tokens);
    at::Tensor map = stripes_.Map(qkv[0], qkv[1]);
    if (interlacing_) map = interlacing_->SpreadWeights(map, padded_.size());
    return padded_.CropWeights(map);
  }

 private:
  // [3, B, heads, height, width, D] of the padded map, pale by pale where those are attended.
  at::Tensor Project(const at::Tensor& tokens) const {
    at::Tensor map = padded_.Pad(tokens);
    if (interlacing_) map = interlacing_->Gather(map);
    return SplitQkv(qkv_->forward(map), heads_);
  }

  const int64_t heads_;
  const PaddedMap padded_;
  WindowedHeads stripes_;
  std::optional<Interlacing> interlacing_;  // of pales
  const std::shared_ptr<Linear> qkv_;
  const std::shared_ptr<Linear> proj_;
};

std::shared_ptr<AttentionModule> MakeStriped(const AttentionSpec& spec, const ModuleSite& site,
                                             bool interlaced, const AttentionFactory& cores) {
  RefusePrefixTokens(site);
  RefuseUnevenHeads(site, 2);
  return std::make_shared<Striped>(site, WithinMap(spec.window.value_or(site.window), site.grid),
                                   interlaced, cores);
}

}  // namespace

std::shared_ptr<AttentionModule> MakeCrossShaped(const AttentionSpec& spec, const ModuleSite& site,
                                                 const AttentionFactory& cores) {
  return MakeStriped(spec, site, /*interlaced=*/false, cores);
}

std::shared_ptr<AttentionModule> MakePale(const AttentionSpec& spec, const ModuleSite& site,
                                          const AttentionFactory& cores) {
  return MakeStriped(spec, site, /*interlaced=*/true, cores);
}

}  // namespace fovea::models
