#include <ATen/ATen.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/attention/key_only_attention/op.h"
#include "kernels/attention/key_only_layer/op.h"
#include "model_zoo/attention/attention_time.h"
#include "model_zoo/attention/modules/modules.h"

namespace fovea::models {
namespace {

// A matrix and a bias under torch's Linear's names, which the operator reads as they are: Linear
// itself would pack them.
class Projection final : public Layer {
 public:
  Projection(int64_t channels, bool bias) : weight_(AddParameter("weight", {channels, channels})) {
    if (bias) bias_ = AddParameter("bias", {channels});
  }

  const at::Tensor& weight() const { return weight_; }
  std::optional<at::Tensor> bias() const {
    return bias_.defined() ? std::optional(bias_) : std::nullopt;
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;  // undefined without one
};

class KeyOnly final : public AttentionModule {
 public:
  explicit KeyOnly(const ModuleSite& site)
      : scale_(1 / std::sqrt(static_cast<double>(site.channels / site.heads))),
        k_(Add<Projection>("k", site.channels, site.qkv_bias)),
        v_(Add<Projection>("v", site.channels, site.qkv_bias)),
        saliency_(AddParameter("saliency", {site.heads, site.channels / site.heads})),
        u1_(Add<Projection>("u1", site.channels, site.proj_bias)),
        u2_(Add<Projection>("u2", site.channels, site.proj_bias)) {}

  at::Tensor forward(at::Tensor tokens, const Grid& /*grid*/) const override {
    if (!AttentionTime::MayFold()) return ForwardApart(tokens);
    return kernels::KeyOnlyLayer(tokens, Weights(), scale_, folded_);
  }

  // The same row for every query: the softmax over all tokens of key . saliency * scale, with which
  // the global context gathers the keys (equations 2 and 3).
  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    const at::Tensor key = at::linear(tokens, k_->weight(), k_->bias())
                               .to(at::kFloat)
                               .unflatten(2, {saliency_.size(0), saliency_.size(1)});
    const at::Tensor logits = (key * saliency_.to(at::kFloat)).sum(3) * scale_;  // [B, N, heads]
    const at::Tensor weights = logits.softmax(1).transpose(1, 2);
    return weights.unsqueeze(2).expand({-1, -1, tokens.size(1), -1});
  }

  // Each token is gated with the keys that its own row gathers.
  at::Tensor Apply(const at::Tensor& map, const at::Tensor& tokens,
                   const Grid& /*grid*/) const override {
    const at::Tensor key = at::linear(tokens, k_->weight(), k_->bias());
    const at::Tensor value = at::linear(tokens, v_->weight(), v_->bias());
    return Project(at::matmul(map, HeadsOf(key)) * HeadsOf(value), key);
  }

  void Prepare(const Placement& placement) override {
    if (!folded_) Fold(placement);
    Layer::Prepare(placement);
  }

  void ShareWeights(const Layer& loaded) override {
    Layer::ShareWeights(loaded);
    folded_ = dynamic_cast<const KeyOnly&>(loaded).folded_;
  }

 private:
  // [B, N, C] to [B, heads, N, D].
  at::Tensor HeadsOf(const at::Tensor& projected) const {
    return projected.unflatten(2, {saliency_.size(0), saliency_.size(1)}).transpose(1, 2);
  }

  // Equation 4 behind the attention: `gated` [B, heads, N, D], `key` [B, N, C].
  at::Tensor Project(const at::Tensor& gated, const at::Tensor& key) const {
    const at::Tensor local =
        at::linear(gated.transpose(1, 2).flatten(2), u1_->weight(), u1_->bias());
    return at::linear(local + key, u2_->weight(), u2_->bias());
  }

  at::Tensor ForwardApart(const at::Tensor& tokens) const {
    const at::Tensor key = at::linear(tokens, k_->weight(), k_->bias());
    const at::Tensor value = at::linear(tokens, v_->weight(), v_->bias());
    const at::Tensor gated = [&] {
      const AttentionRegion region;
      return kernels::KeyOnlyAttention(HeadsOf(key), HeadsOf(value), saliency_, scale_);
    }();
    return Project(gated, key);
  }

  int64_t OwnBytes() const override {
    int64_t bytes = Layer::OwnBytes();
    if (!folded_ || shared()) return bytes;
    for (const at::Tensor& product : *folded_) {
      // Some of them are the parameters, where these were not cast.
      if (!IsParameter(product)) bytes += static_cast<int64_t>(product.nbytes());
    }
    return bytes;
  }

  // Of what FoldKeyOnlyWeights returns, those for the context come first and stay in fp32.
  static constexpr size_t kContextProducts = 3;

  void Fold(const Placement& placement) {
    // Products of unrounded parameters, each rounded once.
    const at::NoGradGuard no_grad;
    folded_ = kernels::FoldKeyOnlyWeights(Weights());
    for (size_t i = 0; i < folded_->size(); ++i) {
      at::Tensor& product = (*folded_)[i];
      const bool over_tokens = i >= kContextProducts;
      product = product.detach().to(placement.device, over_tokens ? placement.dtype : at::kFloat);
    }
  }

  kernels::KeyOnlyWeights Weights() const {
    return {.key_weight = k_->weight(),
            .key_bias = k_->bias(),
            .value_weight = v_->weight(),
            .value_bias = v_->bias(),
            .saliency = saliency_,
            .u1_weight = u1_->weight(),
            .u1_bias = u1_->bias(),
            .u2_weight = u2_->weight(),
            .u2_bias = u2_->bias()};
  }

  bool IsParameter(const at::Tensor& tensor) const {
    return tensor.is_alias_of(k_->weight()) || (k_->bias() && tensor.is_alias_of(*k_->bias()));
  }

  const double scale_;
  const std::shared_ptr<Projection> k_;
  const std::shared_ptr<Projection> v_;
  at::Tensor saliency_;
  const std::shared_ptr<Projection> u1_;
  const std::shared_ptr<Projection> u2_;
  std::optional<std::vector<at::Tensor>> folded_;  // of the prepared module
};

}  // namespace

std::shared_ptr<AttentionModule> MakeKeyOnly(const AttentionSpec& /*spec*/, const ModuleSite& site,
                                             const AttentionFactory& /*cores*/) {
  return std::make_shared<KeyOnly>(site);
}

}  // namespace fovea::models
