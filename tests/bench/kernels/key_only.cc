// The key-only layer against its definition in five operations.
#include <cmath>

#include "kernels/attention/key_only_layer/op.h"
#include "tests/bench/kernels/contest.h"

namespace fovea::bench {
namespace {

struct Stage {
  int64_t batch, tokens, channels, heads;
  bool early;  // of LinGlo's stages 1 and 2, or from 28x28 tokens up
};

Contest::Sides Layers(const Stage& s, at::ScalarType type) {
  const int64_t dim = s.channels / s.heads;
  const auto weight = [&] {
    return (at::randn({s.channels, s.channels}) / std::sqrt(static_cast<double>(s.channels)))
        .to(type);
  };
  const auto bias = [&] { return at::randn({s.channels}).to(type); };
  const at::Tensor x = at::randn({s.batch, s.tokens, s.channels}).to(type);
  const kernels::KeyOnlyWeights w = {
      weight(), bias(), weight(), bias(), at::randn({s.heads, dim}).to(type),
      weight(), bias(), weight(), bias()};
  // As a prepared model has it.
  const std::vector<at::Tensor> folded = kernels::FoldKeyOnlyWeights(w);
  return {[=] { return kernels::KeyOnlyLayer(x, w, std::nullopt, folded); },
          [=] {
            const at::Tensor key = at::linear(x, w.key_weight, w.key_bias);
            const at::Tensor value = at::linear(x, w.value_weight, w.value_bias);
            const at::Tensor heads = key.unflatten(-1, {s.heads, dim});
            const at::Tensor gate =
                at::softmax((heads * w.saliency).sum(-1) / std::sqrt(static_cast<double>(dim)), 1);
            const at::Tensor context = (gate.unsqueeze(-1) * heads).sum(1).flatten(-2).unsqueeze(1);
            return at::linear(at::linear(context * value, w.u1_weight, w.u1_bias) + key,
                              w.u2_weight, w.u2_bias);
          }};
}

}  // namespace

std::vector<Contest> KeyOnlyContests(int cores) {
  std::vector<Contest> contests;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Stage s : {Stage{1, 3136, 64, 1, true},
                          {16, 3136, 64, 1, true},
                          {1, 784, 128, 2, true},
                          {16, 784, 128, 2, true},
                          {1, 16384, 64, 1, true},
                          {1, 65536, 64, 1, true},
                          {1, 196, 320, 5, false},
                          {16, 196, 320, 5, false},
                          {1, 49, 512, 8, false},
                          {16, 49, 512, 8, false}}) {
      contests.push_back(
          {.floor = s.early ? "key_only_layer_over_definition" : "key_only_layer_deep",
           .ours = "key_only_layer",
           .peer = "its definition",
           .shape = BatchText(s.batch) + " N" + std::to_string(s.tokens) + " C" +
                    std::to_string(s.channels) + " H" + std::to_string(s.heads),
           .type = type,
           .threads = cores,
           .turns = s.batch * s.tokens > 20000 ? 21 : 61,
           .set_up = [=] { return Layers(s, type); }});
    }
  }
  return contests;
}

}  // namespace fovea::bench
