#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/layers/linear_chain.h"

namespace fovea::models {
namespace {

class SelfAttention final : public AttentionModule {
 public:
  // `kernel`: what stands behind [out, in] in the published shape of the weights.
  SelfAttention(const ModuleSite& site, const AttentionFactory& cores,
                const std::vector<int64_t>& kernel = {})
      : heads_(site.heads),
        core_(cores.Core({.head_dim = site.channels / site.heads, .keys = site.grid.tokens()})),
        qkv_(Add<Linear>("qkv", WeightShape(3 * site.channels, site.channels, kernel),
                         site.qkv_bias)),
        proj_(Add<Linear>("proj", WeightShape(site.channels, site.channels, kernel),
                          site.proj_bias)) {}

  const Linear* projection() const override { return proj_.get(); }

  at::Tensor Mix(at::Tensor tokens, const LayerNorm* norm, const Grid& /*grid*/) const override {
    const at::Tensor qkv = Project(tokens, norm);
    tokens.reset();
    return core_->Attend(qkv[0], qkv[1], qkv[2]).transpose(1, 2).flatten(2);
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor qkv = Project(tokens);
    return core_->Map(qkv[0], qkv[1]);
  }

  at::Tensor Apply(const at::Tensor& map, const at::Tensor& tokens,
                   const Grid& /*grid*/) const override {
    const at::Tensor mixed = at::matmul(map, Project(tokens)[2]);
    return proj_->forward(mixed.transpose(1, 2).flatten(2));
  }

 private:
  static std::vector<int64_t> WeightShape(int64_t out, int64_t in, std::vector<int64_t> kernel) {
    kernel.insert(kernel.begin(), {out, in});
    return kernel;
  }

  // [3, B, heads, tokens, head_dim]: strided views of one projection, which cores read in place.
  at::Tensor Project(const at::Tensor& tokens, const LayerNorm* norm = nullptr) const {
    return RunNormed(*qkv_, norm, tokens).unflatten(2, {3, heads_, -1}).permute({2, 0, 3, 1, 4});
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
  return std::make_shared<SelfAttention>(site, cores);
}

std::shared_ptr<AttentionModule> MakePointwiseSelfAttention(const AttentionSpec& /*spec*/,
                                                            const ModuleSite& site,
                                                            const AttentionFactory& cores) {
  return std::make_shared<SelfAttention>(site, cores, std::vector<int64_t>{1, 1});
}

}  // namespace fovea::models
