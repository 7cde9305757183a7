#include "model_zoo/explain/relevance.h"

#include <ATen/ATen.h>

#include <array>
#include <map>
#include <string_view>
#include <utility>

namespace fovea::models {
namespace {

// Of what denominators are kept away from zero, as the authors' code does.
constexpr double kStabiliser = 1e-9;
// What a norm adds to the variance. Other backbones' 1e-5 changes nothing that could be seen.
constexpr double kNormEpsilon = 1e-6;

using Parameters = std::map<std::string, at::Tensor, std::less<>>;

// a / b, and 0 where b is 0.
at::Tensor Ratio(const at::Tensor& a, const at::Tensor& b) {
  return (a / (b + kStabiliser)).masked_fill(b.eq(0), 0.0);
}

// Through y = x W^T: each input gets, of an output's relevance, its share of what raises the
// output. x [N, in], weight [out, in], relevance [N, out].
at::Tensor ThroughLinear(const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& relevance) {
  const at::Tensor up_x = x.clamp_min(0), down_x = x.clamp_max(0);
  const at::Tensor up = weight.clamp_min(0), down = weight.clamp_max(0);
  const at::Tensor raised = at::linear(up_x, up) + at::linear(down_x, down);
  const at::Tensor shares = Ratio(relevance, raised);
  return up_x * at::matmul(shares, up) + down_x * at::matmul(shares, down);
}

// Through c = a b, matrices, or products over heads: each factor gets half.
std::array<at::Tensor, 2> ThroughProduct(const at::Tensor& a, const at::Tensor& b,
                                         const at::Tensor& relevance) {
  const at::Tensor shares = Ratio(relevance, at::matmul(a, b));
  return {a * at::matmul(shares, b.mT()) / 2, b * at::matmul(a.mT(), shares) / 2};
}

// Through c = a + b: by their parts in the sum, which are then scaled so that the two get all of
// it, each in proportion to its own total.
std::array<at::Tensor, 2> ThroughSum(const at::Tensor& a, const at::Tensor& b,
                                     const at::Tensor& relevance) {
  const at::Tensor shares = Ratio(relevance, a + b);
  const at::Tensor of_a = a * shares, of_b = b * shares;
  const at::Tensor sum_a = of_a.sum(), sum_b = of_b.sum();
  const at::Tensor both = sum_a.abs() + sum_b.abs(), all = relevance.sum();
  return {of_a * Ratio(Ratio(sum_a.abs(), both) * all, sum_a),
          of_b * Ratio(Ratio(sum_b.abs(), both) * all, sum_b)};
}

// A block's parameters under their names in it, in fp64.
Parameters ParametersOf(const Parameters& all, const std::string& layer) {
  Parameters own;
  const std::string prefix = layer + ".";
  for (auto next = all.lower_bound(prefix); next != all.end() && next->first.starts_with(prefix);
       ++next) {
    own.emplace(next->first.substr(prefix.size()), next->second.to(at::kDouble));
  }
  return own;
}

bool IsPlain(const Parameters& block) {
  constexpr std::string_view kNames[] = {"attn.proj.weight", "attn.qkv.weight", "mlp.fc1.weight",
                                         "mlp.fc2.weight",   "norm1.weight",    "norm2.weight",
                                         "attn.proj.bias",   "attn.qkv.bias",   "mlp.fc1.bias",
                                         "mlp.fc2.bias",     "norm1.bias",      "norm2.bias"};
  constexpr size_t kNeeded = 6;  // the first of them
  size_t known = 0;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    const bool there = block.contains(kNames[i]);
    if (!there && i < kNeeded) return false;
    known += there;
  }
  return known == block.size();
}

std::optional<at::Tensor> Optional(const Parameters& parameters, std::string_view name) {
  const auto found = parameters.find(name);
  return found == parameters.end() ? std::nullopt : std::optional(found->second);
}

at::Tensor Norm(const at::Tensor& x, const Parameters& parameters, const std::string& name) {
  return at::layer_norm(x, {x.size(-1)}, parameters.at(name + ".weight"),
                        Optional(parameters, name + ".bias"), kNormEpsilon);
}

at::Tensor Project(const at::Tensor& x, const Parameters& parameters, const std::string& name) {
  return at::linear(x, parameters.at(name + ".weight"), Optional(parameters, name + ".bias"));
}

// One block in fp64, [N, C].
class Block {
 public:
  Block(const BlockPass& pass, Parameters parameters, const std::function<bool()>& stop)
      : stop_(stop),
        parameters_(std::move(parameters)),
        map_(pass.map.detach()[0].to(at::kDouble)),
        attention_(pass.attention[0].to(at::kDouble)),
        mlp_(pass.mlp[0].to(at::kDouble)),
        attended_(pass.output[0].to(at::kDouble) - mlp_) {}

  // From the relevance of its output to that of its input. Norms and activations pass it on as it
  // is.
  at::Tensor Back(const at::Tensor& relevance, at::Tensor* of_map) const {
    MayStop();
    auto [by_mlp, mlp] = ThroughSum(attended_, mlp_, relevance);
    const at::Tensor normed = Norm(attended_, parameters_, "norm2");
    const at::Tensor hidden = at::gelu(Project(normed, parameters_, "mlp.fc1"));
    MayStop();
    mlp = ThroughLinear(hidden, parameters_.at("mlp.fc2.weight"), mlp);
    MayStop();
    mlp = ThroughLinear(normed, parameters_.at("mlp.fc1.weight"), mlp);

    MayStop();
    const at::Tensor input = attended_ - attention_;
    auto [by_attention, attention] = ThroughSum(input, attention_, by_mlp + mlp);
    return by_attention + BackThroughAttention(input, attention, of_map);
  }

 private:
  at::Tensor BackThroughAttention(const at::Tensor& input, const at::Tensor& relevance,
                                  at::Tensor* of_map) const {
    const int64_t heads = map_.size(0);
    const at::Tensor normed = Norm(input, parameters_, "norm1");
    // [3, heads, N, head_dim]
    const at::Tensor qkv =
        Project(normed, parameters_, "attn.qkv").unflatten(1, {3, heads, -1}).permute({1, 2, 0, 3});
    const at::Tensor mixed = at::matmul(map_, qkv[2]).transpose(0, 1).flatten(1);
    const at::Tensor of_mixed = ThroughLinear(mixed, parameters_.at("attn.proj.weight"), relevance);
    MayStop();
    const auto [of_weights, of_value] =
        ThroughProduct(map_, qkv[2], of_mixed.unflatten(1, {heads, -1}).transpose(0, 1));
    *of_map = of_weights;
    MayStop();
    const auto [of_query, of_key] = ThroughProduct(qkv[0], qkv[1].mT(), of_weights);
    const at::Tensor of_qkv =
        at::stack({of_query, of_key.mT(), of_value}).permute({2, 0, 1, 3}).flatten(1);
    MayStop();
    return ThroughLinear(normed, parameters_.at("attn.qkv.weight"), of_qkv);
  }

  // Between two steps, each with products of all tokens.
  void MayStop() const {
    if (stop_()) throw Stopped();
  }

  const std::function<bool()>& stop_;
  const Parameters parameters_;
  const at::Tensor map_, attention_, mlp_, attended_;
};

}  // namespace

std::optional<std::vector<at::Tensor>> AttentionRelevance(const Backbone& backbone,
                                                          std::span<const BlockPass> blocks,
                                                          const Grid& grid,
                                                          const at::Tensor& logits, int64_t target,
                                                          const std::function<bool()>& stop,
                                                          std::string* why_not) {
  const at::NoGradGuard no_grad;
  Parameters all;
  for (const auto& parameter : backbone.named_parameters()) {
    all.emplace(parameter.key(), parameter.value());
  }
  const auto needed = {"norm.weight", "norm.bias", "head.weight"};
  for (const char* name : needed) {
    if (all.contains(name)) continue;
    *why_not = "its classifier is no norm and matrix over the class token";
    return std::nullopt;
  }
  Parameters head;
  for (const char* name : {"norm.weight", "norm.bias", "head.weight", "head.bias"}) {
    if (const auto found = all.find(name); found != all.end()) {
      head.emplace(name, found->second.to(at::kDouble));
    }
  }
  const at::Tensor classified = Norm(blocks.back().output[0].to(at::kDouble)[0], head, "norm");
  const at::Tensor made = Project(classified, head, "head");
  const at::Tensor given = logits.detach().to(at::kDouble);
  const bool same =
      grid.prefix_tokens > 0 && made.sizes() == given.sizes() &&
      (made - given).abs().max().item<double>() <= 1e-3 * (1 + given.abs().max().item<double>());
  if (!same) {
    *why_not = "its classifier does not read the class token alone";
    return std::nullopt;
  }
  const at::Tensor chosen = at::zeros_like(made).unsqueeze(0);
  chosen[0][target] = 1;
  at::Tensor relevance = at::zeros_like(blocks.back().output[0], at::kDouble);
  relevance[0].copy_(ThroughLinear(classified.unsqueeze(0), head.at("head.weight"), chosen)[0]);

  std::vector<at::Tensor> of_maps(blocks.size());
  for (size_t i = blocks.size(); i-- > 0;) {
    Parameters own = ParametersOf(all, blocks[i].layer);
    if (!IsPlain(own)) {
      *why_not = blocks[i].layer + " is no plain block of self-attention";
      return std::nullopt;
    }
    relevance = Block(blocks[i], std::move(own), stop).Back(relevance, &of_maps[i]);
  }
  return of_maps;
}

}  // namespace fovea::models
