#include <ATen/ATen.h>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/layers/conv2d.h"
#include "model_zoo/layers/linear_chain.h"
#include "model_zoo/layers/token_map.h"

namespace fovea::models {
namespace {

class SeparableConvolution final : public AttentionModule {
 public:
  explicit SeparableConvolution(int64_t channels)
      : pwconv1_(Add<Linear>("pwconv1", at::IntArrayRef{2 * channels, channels, 1, 1},
                             /*bias=*/false)),
        act1_(Add<StarRelu>("act1")),
        dwconv_(Add<Conv2d>("dwconv", Conv2dOptions::Square(2 * channels, 2 * channels, /*side=*/7,
                                                            /*stride=*/1, /*padding=*/3)
                                          .Groups(2 * channels)
                                          .NoBias())),
        pwconv2_(Add<Linear>("pwconv2", at::IntArrayRef{channels, 2 * channels, 1, 1},
                             /*bias=*/false)) {}

  const Linear* projection() const override { return pwconv2_.get(); }

  at::Tensor Mix(at::Tensor tokens, const LayerNorm* norm, const Grid& grid) const override {
    const LinearLink link = {.linear = pwconv1_.get(), .norm = norm, .star_relu = act1_.get()};
    at::Tensor wide = RunLinears({&link, 1}, tokens);
    tokens.reset();
    const at::Tensor mixed = dwconv_->forward(TokensToMap(wide, grid.height, grid.width));
    wide.reset();
    return mixed.flatten(2).transpose(1, 2);
  }

  at::Tensor Map(const at::Tensor& /*tokens*/, const Grid& /*grid*/) const override { return {}; }

 private:
  const std::shared_ptr<Linear> pwconv1_;
  const std::shared_ptr<StarRelu> act1_;
  const std::shared_ptr<Conv2d> dwconv_;
  const std::shared_ptr<Linear> pwconv2_;
};

}  // namespace

std::shared_ptr<AttentionModule> MakeSeparableConvolution(const AttentionSpec& /*spec*/,
                                                          const ModuleSite& site,
                                                          const AttentionFactory& /*cores*/) {
  RefusePrefixTokens(site);
  return std::make_shared<SeparableConvolution>(site.channels);
}

}  // namespace fovea::models
