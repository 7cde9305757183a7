// Compares LayerNorm with torch's: the outputs are the same, and so are the gradients except those
// of tokens whose channels are nearly equal.
#include "model_zoo/layers/layer_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fovea::models {
namespace {

constexpr int64_t kChannels = 32;
constexpr double kEpsilon = 1e-6;

// A norm's output, and the gradients of its input [tokens, channels], weight and bias.
struct Pass {
  at::Tensor output, input_gradient, weight_gradient, bias_gradient;
};

class LayerNormTest : public ::testing::Test {
 protected:
  LayerNormTest() {
    const at::NoGradGuard no_grad;
    for (at::Tensor& parameter : norm_.parameters()) parameter.normal_(1, 0.5, generator_);
  }

  // Tokens with these standard deviations over their channels, in units of sqrt(kEpsilon). 0 makes
  // all channels equal.
  at::Tensor Tokens(std::vector<double> deviations) {
    at::Tensor tokens =
        at::randn({static_cast<int64_t>(deviations.size()), kChannels}, generator_, at::kDouble);
    tokens = tokens - tokens.mean({1}, true);
    const at::Tensor scales = at::tensor(deviations, at::kDouble).mul(std::sqrt(kEpsilon));
    tokens = tokens * (scales / at::std(tokens, {1}, /*unbiased=*/false)).unsqueeze(1);
    return tokens.to(at::kFloat);
  }

  template <typename Norm>
  Pass Run(const at::Tensor& tokens, const at::Tensor& above, const Norm& norm) {
    for (at::Tensor& parameter : norm_.parameters()) parameter.mutable_grad().reset();
    const at::Tensor input = tokens.clone().requires_grad_();
    const at::Tensor output = norm(input);
    output.backward(above);
    return {output.detach(), input.grad(), norm_.parameters()[0].grad(),
            norm_.parameters()[1].grad()};
  }
  Pass Ours(const at::Tensor& tokens, const at::Tensor& above) {
    return Run(tokens, above, [&](const at::Tensor& input) { return norm_.forward(input); });
  }
  Pass Torch(const at::Tensor& tokens, const at::Tensor& above) {
    return Run(tokens, above, [&](const at::Tensor& input) {
      return at::layer_norm(input, {kChannels}, norm_.parameters()[0], norm_.parameters()[1],
                            kEpsilon);
    });
  }
  at::Tensor Above(const at::Tensor& tokens) { return at::randn(tokens.sizes(), generator_); }

  at::Generator generator_ = at::make_generator<at::CPUGeneratorImpl>(1);
  LayerNorm norm_{kChannels, kEpsilon};
};

TEST_F(LayerNormTest, OutputsAndGradientsOfParametersAreTorchs) {
  const at::Tensor tokens = Tokens({0, 0.01, 0.5, 1, 1000}), above = Above(tokens);
  const Pass ours = Ours(tokens, above), torch = Torch(tokens, above);
  EXPECT_TRUE(ours.output.equal(torch.output));
  EXPECT_TRUE(ours.weight_gradient.equal(torch.weight_gradient));
  EXPECT_TRUE(ours.bias_gradient.equal(torch.bias_gradient));
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(norm_.forward(tokens).equal(torch.output));
}

TEST_F(LayerNormTest, GradientsOfOrdinaryTokensAreTorchs) {
  const at::Tensor tokens = Tokens({1.01, 10, 1000, 1e6}), above = Above(tokens);
  EXPECT_TRUE(Ours(tokens, above).input_gradient.equal(Torch(tokens, above).input_gradient));
}

TEST_F(LayerNormTest, TokensOfEqualChannelsHaveNoGradient) {
  const at::Tensor tokens = at::stack({at::zeros({kChannels}), at::full({kChannels}, 3.0)});
  const at::Tensor above = Above(tokens);
  EXPECT_GT(Torch(tokens, above).input_gradient.abs().max().item<float>(), 100);
  EXPECT_EQ(Ours(tokens, above).input_gradient.abs().max().item<float>(), 0);
}

TEST_F(LayerNormTest, GradientsFallAsTheDeviationDoesBelowEpsilons) {
  const std::vector<double> deviations = {0.5, 0.1, 0.001};
  const at::Tensor tokens = Tokens(deviations), above = Above(tokens);
  const at::Tensor expected =
      Torch(tokens, above).input_gradient * at::tensor(deviations, at::kFloat).unsqueeze(1);
  // The deviation in fp32 errs by a few roundings of kChannels terms.
  EXPECT_TRUE(at::allclose(Ours(tokens, above).input_gradient, expected,
                           kChannels * std::ldexp(1, -24), 0));
}

// A residual bypasses the norm: only the norm's own part of the gradient is scaled.
TEST_F(LayerNormTest, OtherUsesOfTheInputKeepTheirGradient) {
  const at::Tensor tokens = at::zeros({2, kChannels}), above = Above(tokens);
  const Pass pass =
      Run(tokens, above, [&](const at::Tensor& input) { return input + norm_.forward(input); });
  EXPECT_TRUE(pass.input_gradient.equal(above));
}

}  // namespace
}  // namespace fovea::models
