#include <ATen/ATen.h>

#include <array>
#include <vector>

#include "kernels/attention/attention_maps.h"
#include "kernels/attention/conv_static_key_attention/op.h"
#include "model_zoo/attention/attention_time.h"
#include "model_zoo/attention/modules/modules.h"
#include "model_zoo/attention/modules/static_key_options.h"
#include "model_zoo/attention/site_windows.h"
#include "model_zoo/layers/linear.h"

namespace fovea::models {
namespace {

// The grouped convolution of the keys: `weight` [heads * M, head_dim, 3, 3], `bias` [heads * M] for
// the M places of `grid`. Its owner reads them.
class KeyConvolution final : public Layer {
 public:
  KeyConvolution(int64_t heads, int64_t head_dim, const Grid& grid, bool interpolate)
      : heads_(heads),
        places_{.height = grid.height, .width = grid.width},
        interpolate_(interpolate),
        weight_(AddSizedParameter("weight", {heads * places_.tokens(), head_dim, 3, 3})),
        bias_(AddSizedParameter("bias", {heads * places_.tokens()})) {}

  const at::Tensor& weight() const { return weight_; }
  const at::Tensor& bias() const { return bias_; }

  // The output channels of a head are places.
  at::Tensor Resized(const std::string& parameter, const at::Tensor& stored) const override {
    const at::Tensor& own = parameter == "weight" ? weight_ : bias_;
    if (stored.dim() != own.dim() || stored.size(0) % heads_ != 0 ||
        stored.sizes().slice(1) != own.sizes().slice(1)) {
      return stored;
    }
    const at::Tensor keys = stored.view({heads_, stored.size(0) / heads_, -1});
    std::vector<int64_t> sizes = own.sizes().vec();
    sizes[0] = -1;
    return ResizedKeys(keys, places_, interpolate_).reshape(sizes);
  }

  void Prepare(const Placement& placement) override {
    Layer::Prepare(placement);
    // The kernels read each tap's weights side by side.
    weight_.set_data(weight_.contiguous(at::MemoryFormat::ChannelsLast));
  }

 private:
  const int64_t heads_;
  const Grid places_;
  const bool interpolate_;
  at::Tensor weight_;
  at::Tensor bias_;
};

// `to_out.0`: a Sequential of a linear layer and, while training, dropout.
class Output final : public Layer {
 public:
  Output(int64_t channels, bool bias) : linear_(Add<Linear>("0", channels, channels, bias)) {}
  at::Tensor forward(const at::Tensor& mixed) const { return linear_->forward(mixed); }

 private:
  const std::shared_ptr<Linear> linear_;
};

class ConvStaticKey final : public AttentionModule {
 public:
  ConvStaticKey(const AttentionSpec& spec, const ModuleSite& site)
      : options_(spec, site),
        windows_(site),
        to_qv_(Add<Linear>("to_qv", site.channels, 2 * site.channels, /*bias=*/false)),
        to_k_(Add<KeyConvolution>("to_k", options_.heads, site.channels / options_.heads,
                                  windows_.grid(), options_.interpolate)),
        to_out_(Add<Output>("to_out", site.channels, site.proj_bias)) {
    SetHeads(options_.heads);
    if (site.grid.prefix_tokens == 1) {
      cls_k_ = AddParameter("cls_k", {options_.heads, 1, site.channels / options_.heads});
    }
  }

  at::Tensor forward(at::Tensor tokens, const Grid& /*grid*/) const override {
    at::Tensor qv = Project(tokens);
    tokens.reset();
    const at::Tensor mixed = [&] {
      const AttentionRegion region;
      return kernels::ConvStaticKeyAttention(qv[0], qv[1], Places(), to_k_->weight(), to_k_->bias(),
                                             ClassKey(), options_.activation, options_.scale,
                                             options_.activation_scale, options_.activation_bias);
    }();
    qv.reset();
    return windows_.Join(to_out_->forward(mixed.transpose(1, 2).flatten(2)));
  }

  at::Tensor Map(const at::Tensor& tokens, const Grid& /*grid*/) const override {
    // The reference takes all but queries in the type that it calculates in.
    const auto wide = [](const at::Tensor& t) { return t.to(at::kFloat); };
    std::optional<at::Tensor> cls_key = ClassKey();
    if (cls_key) cls_key = wide(*cls_key);
    return windows_.JoinMaps(kernels::ConvStaticKeyAttentionMap(
        wide(Project(tokens)[0]), Places(), wide(to_k_->weight()), wide(to_k_->bias()), cls_key,
        options_.activation, options_.scale, options_.activation_scale, options_.activation_bias));
  }

  at::Tensor Apply(const at::Tensor& map, const at::Tensor& tokens,
                   const Grid& /*grid*/) const override {
    const at::Tensor qv = Project(tokens);
    if (qv.size(1) != tokens.size(0) || qv.size(3) != tokens.size(1)) return {};  // as StaticKey's
    const at::Tensor mixed = at::matmul(map, qv[1]);
    return to_out_->forward(mixed.transpose(1, 2).flatten(2));
  }

 private:
  // [2, B, heads, tokens, head_dim]: strided views of one projection.
  at::Tensor Project(const at::Tensor& tokens) const {
    return to_qv_->forward(windows_.Cut(tokens))
        .unflatten(2, {2, options_.heads, -1})
        .permute({2, 0, 3, 1, 4});
  }
  std::array<int64_t, 2> Places() const { return {windows_.grid().height, windows_.grid().width}; }
  std::optional<at::Tensor> ClassKey() const {
    return cls_k_.defined() ? std::optional(cls_k_) : std::nullopt;
  }

  const StaticKeyOptions options_;
  SiteWindows windows_;
  const std::shared_ptr<Linear> to_qv_;
  const std::shared_ptr<KeyConvolution> to_k_;
  const std::shared_ptr<Output> to_out_;
  at::Tensor cls_k_;  // undefined without a class token
};

}  // namespace

std::shared_ptr<AttentionModule> MakeConvStaticKey(const AttentionSpec& spec,
                                                   const ModuleSite& site,
                                                   const AttentionFactory& /*cores*/) {
  TORCH_CHECK_VALUE(site.grid.prefix_tokens <= 1,
                    "it has a key for one token that does not lie on a map, and this backbone has ",
                    site.grid.prefix_tokens, " (class and distillation token)");
  return std::make_shared<ConvStaticKey>(spec, site);
}

}  // namespace fovea::models
