#include <ATen/ATen.h>

#include "kernels/attention/attention_maps.h"
#include "kernels/attention/criss_cross_attention/op.h"
#include "model_zoo/attention/attention_time.h"
#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {
namespace {

class CrissCross final : public AttentionModule {
 public:
  explicit CrissCross(const ModuleSite& site)
      : heads_(site.heads),
        qkv_(Add<Linear>("qkv", site.channels, 3 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)) {}

  at::Tensor forward(at::Tensor tokens, const Grid& grid) const override {
    at::Tensor qkv = Project(tokens, grid);
    tokens.reset();
    const at::Tensor mixed = [&] {
      const AttentionRegion region;
      return kernels::CrissCrossAttention(qkv[0], qkv[1], qkv[2]);
    }();
    qkv.reset();
    return proj_->forward(mixed.permute({0, 2, 3, 1, 4}).flatten(3).flatten(1, 2));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& grid) const override {
    const at::Tensor qkv = Project(tokens, grid);
    return kernels::CrissCrossAttentionMap(qkv[0], qkv[1]);
  }

  at::Tensor Apply(const at::Tensor& map, const at::Tensor& tokens,
                   const Grid& grid) const override {
    const at::Tensor value = Project(tokens, grid)[2].flatten(2, 3);
    return proj_->forward(at::matmul(map, value).transpose(1, 2).flatten(2));
  }

 private:
  // [3, B, heads, height, width, D].
  at::Tensor Project(const at::Tensor& tokens, const Grid& grid) const {
    return qkv_->forward(tokens)
        .unflatten(2, {3, heads_, -1})
        .unflatten(1, {grid.height, grid.width})
        .permute({3, 0, 4, 1, 2, 5});
  }

  const int64_t heads_;
  const std::shared_ptr<Linear> qkv_;
  const std::shared_ptr<Linear> proj_;
};

}  // namespace

std::shared_ptr<AttentionModule> MakeCrissCross(const AttentionSpec& /*spec*/,
                                                const ModuleSite& site,
                                                const AttentionFactory& /*cores*/) {
  RefusePrefixTokens(site);
  return std::make_shared<CrissCross>(site);
}

}  // namespace fovea::models
