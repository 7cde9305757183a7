#include <ATen/ATen.h>

#include <utility>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {
namespace {

class SelfAttention final : public AttentionModule {
 public:
  SelfAttention(const ModuleSite& site, std::shared_ptr<const AttentionCore> core)
      : heads_(site.heads),
        core_(std::move(core)),
        qkv_(Add<Linear>("qkv", site.channels, 3 * site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)) {}

  at::Tensor forward(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor qkv = Project(tokens);
    const at::Tensor mixed = core_->Attend(qkv[0], qkv[1], qkv[2]);
    return proj_->forward(mixed.transpose(1, 2).flatten(2));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor qkv = Project(tokens);
    return core_->Map(qkv[0], qkv[1]);
  }

 private:
  // [3, B, heads, tokens, head_dim]: strided views of one projection, which cores read in place.
  at::Tensor Project(const at::Tensor& tokens) const {
    return qkv_->forward(tokens).unflatten(2, {3, heads_, -1}).permute({2, 0, 3, 1, 4});
  }

  const int64_t heads_;
  const std::shared_ptr<const AttentionCore> core_;
  const std::shared_ptr<Linear> qkv_;
  const std::shared_ptr<Linear> proj_;
};

}  // namespace

std::shared_ptr<AttentionModule> MakeSelfAttention(const AttentionSpec& /*spec*/,
                                                   const ModuleSite& site,
                                                   const AttentionFactory& cores) {
  return std::make_shared<SelfAttention>(
      site, cores.Core({.head_dim = site.channels / site.heads, .keys = site.grid.tokens()}));
}

}  // namespace fovea::models
