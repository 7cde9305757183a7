#include <ATen/ATen.h>

#include "kernels/attention/attention_maps.h"
#include "kernels/attention/static_key_attention/op.h"
#include "model_zoo/attention/attention_time.h"
#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/modules/static_key_options.h"
#include "model_zoo/attention/site_windows.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {
namespace {

class StaticKey final : public AttentionModule {
 public:
  StaticKey(const AttentionSpec& spec, const ModuleSite& site)
      : options_(spec, site),
        windows_(site),
        q_(Add<Linear>("q", site.channels, site.channels, site.qkv_bias)),
        v_(Add<Linear>("v", site.channels, site.channels, site.qkv_bias)),
        proj_(Add<Linear>("proj", site.channels, site.channels, site.proj_bias)),
        k_(AddSizedParameter(
            "k", {options_.heads, windows_.grid().tokens(), site.channels / options_.heads})) {
    SetHeads(options_.heads);
  }

  at::Tensor forward(at::Tensor tokens, const Grid& /*grid*/) const override {
    at::Tensor cut = windows_.Cut(tokens);
    tokens.reset();
    at::Tensor query = Heads(q_->forward(cut)), value = Heads(v_->forward(cut));
    cut.reset();
    const at::Tensor mixed = [&] {
      const AttentionRegion region;
      return kernels::StaticKeyAttention(query, k_, value, options_.activation, options_.scale,
                                         options_.activation_scale, options_.activation_bias);
    }();
    query.reset();
    value.reset();
    return windows_.Join(proj_->forward(mixed.transpose(1, 2).flatten(2)));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    return windows_.JoinMaps(kernels::StaticKeyAttentionMap(
        Heads(q_->forward(windows_.Cut(tokens))), k_, options_.activation, options_.scale,
        options_.activation_scale, options_.activation_bias));
  }

  at::Tensor Apply(const at::Tensor& map, const at::Tensor& tokens,
                   const Grid& /*grid*/) const override {
    const at::Tensor cut = windows_.Cut(tokens);
    if (cut.sizes() != tokens.sizes()) return {};  // padded tokens take part within windows
    const at::Tensor mixed = at::matmul(map, Heads(v_->forward(cut)));
    return proj_->forward(mixed.transpose(1, 2).flatten(2));
  }

  at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const override {
    if (parameter != "k" || stored.dim() != 3 || stored.size(0) != k_.size(0) ||
        stored.size(2) != k_.size(2)) {
      return stored;
    }
    return ResizedKeys(stored, windows_.grid(), options_.interpolate);
  }

 private:
  // [B, tokens, channels] -> [B, heads, tokens, head_dim], a view.
  at::Tensor Heads(const at::Tensor& projected) const {
    return projected.unflatten(2, {options_.heads, -1}).transpose(1, 2);
  }

  const StaticKeyOptions options_;
  SiteWindows windows_;
  const std::shared_ptr<Linear> q_;
  const std::shared_ptr<Linear> v_;
  const std::shared_ptr<Linear> proj_;
  at::Tensor k_;
};

}  // namespace

std::shared_ptr<AttentionModule> MakeStaticKey(const AttentionSpec& spec, const ModuleSite& site,
                                               const AttentionFactory& /*cores*/) {
  return std::make_shared<StaticKey>(spec, site);
}

}  // namespace fovea::models
