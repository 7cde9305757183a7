// The static-key layer against the dense layer, both with their projections; convolutional static
// keys against a convolution, a softmax and a product.
#include "kernels/attention/conv_static_key_attention/op.h"
#include "kernels/attention/static_key_attention/op.h"
#include "tests/bench/kernels/contest.h"

namespace fovea::bench {
namespace {

constexpr int64_t kHeads = 6, kSide = 14, kTokens = kSide * kSide, kDim = 64,
                  kChannels = kHeads * kDim;

struct Linear {
  at::Tensor weight, bias;
  at::Tensor operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }
};
Linear RandomLinear(int64_t in, int64_t out, at::ScalarType type) {
  return {(at::randn({out, in}) * 0.05).to(type), at::randn({out}).to(type)};
}

// `parts` views [B, heads, tokens, dim] of one projection.
std::vector<at::Tensor> Heads(const at::Tensor& projected, int64_t parts) {
  return projected.unflatten(-1, {parts, kHeads, kDim}).permute({2, 0, 3, 1, 4}).unbind(0);
}

Contest::Sides Layers(int64_t batch, at::ScalarType type) {
  const at::Tensor x = at::randn({batch, kTokens, kChannels}).to(type);
  const Linear qkv = RandomLinear(kChannels, 3 * kChannels, type);
  const Linear qv = RandomLinear(kChannels, 2 * kChannels, type);
  const Linear proj = RandomLinear(kChannels, kChannels, type);
  const at::Tensor key = at::randn({kHeads, kTokens, kDim}).to(type);
  const auto dense_layer = [=](auto dense) {
    return [=] {
      const auto t = Heads(qkv(x), 3);
      return proj(dense(t[0], t[1], t[2]).transpose(1, 2).flatten(2));
    };
  };
  return {[=] {
            const auto t = Heads(qv(x), 2);
            const at::Tensor mixed = kernels::StaticKeyAttention(t[0], key, t[1]);
            return proj(mixed.transpose(1, 2).flatten(2));
          },
          dense_layer(Sdpa), dense_layer(OurDense)};
}

// The convolution's input laid out as torch has it by default, or with channels last, which its
// library prefers and which costs the caller nothing here.
Contest::Sides Convolutions(int64_t batch, at::ScalarType type, at::MemoryFormat layout) {
  const auto t = RandomTokens(batch, kHeads, kTokens, kDim, type);
  const at::Tensor query = t[0], value = t[2];
  const at::Tensor weight = (at::randn({kHeads * kTokens, kDim, 3, 3}) * 0.05).to(type);
  const at::Tensor peers_weight = weight.contiguous(layout);
  // As a prepared model has them.
  const at::Tensor our_weight = weight.contiguous(at::MemoryFormat::ChannelsLast);
  return {[=] {
            return kernels::ConvStaticKeyAttention(query, value, {kSide, kSide}, our_weight);
          },
          [=] {
            const at::Tensor map = query.transpose(1, 2)
                                       .reshape({batch, kSide, kSide, kChannels})
                                       .permute({0, 3, 1, 2})
                                       .contiguous(layout);
            const at::Tensor logits =
                at::conv2d(map, peers_weight, /*bias=*/{}, /*stride=*/1, /*padding=*/1,
                           /*dilation=*/1, /*groups=*/kHeads)
                    .reshape({batch, kHeads, kTokens, kTokens})
                    .transpose(-2, -1);
            return at::matmul(at::softmax(logits * 0.125, -1), value);
          }};
}

}  // namespace

std::vector<Contest> StaticKeyContests(int cores) {
  std::vector<Contest> contests;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t batch : {1, 8}) {
      const Contest contest{.shape = BatchText(batch) + " H6 N196 d64",
                            .type = type,
                            .threads = cores,
                            .turns = batch == 1 ? 101 : 31};
      Contest layer = contest;
      layer.floor = "static_key_to_dense_layer";
      layer.ours = "static-key layer";
      layer.peer = "dense layer (SDPA)";
      layer.set_up = [=] { return Layers(batch, type); };
      contests.push_back(layer);
      for (const bool channels_last : {false, true}) {
        Contest conv = contest;
        conv.floor =
            channels_last ? "conv_static_key_over_channels_last" : "conv_static_key_over_conv";
        conv.ours = "conv_static_key_attention";
        conv.peer =
            channels_last ? "conv (channels last), softmax, matmul" : "conv, softmax, matmul";
        conv.turns = batch == 1 ? 31 : 11;
        conv.set_up = [=] {
          return Convolutions(
              batch, type,
              channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
        };
        contests.push_back(conv);
      }
    }
  }
  return contests;
}

}  // namespace fovea::bench
