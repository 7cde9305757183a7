// The module against the definition: LinGlo, equations 2 to 4, in plain ATen.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model_zoo/attention/attention.h"
#include "model_zoo/attention/factory.h"
#include "model_zoo/attention/registry/attentions.h"

namespace fovea::models {
namespace {

constexpr int64_t kChannels = 48;
constexpr int64_t kHeads = 3;
constexpr Grid kGrid{.height = 5, .width = 7, .prefix_tokens = 1};

std::shared_ptr<AttentionModule> Module(bool biases = true, const Grid& grid = kGrid) {
  const AttentionFactory factory(Attentions(), AttentionSpec::Parse("key_only", Attentions()),
                                 "a test", nullptr);
  const std::shared_ptr<AttentionModule> module = factory.Module({.channels = kChannels,
                                                                  .heads = kHeads,
                                                                  .grid = grid,
                                                                  .qkv_bias = biases,
                                                                  .proj_bias = biases});
  const at::NoGradGuard no_grad;
  const at::Generator seed = at::make_generator<at::CPUGeneratorImpl>(3);
  for (at::Tensor& parameter : module->parameters()) {
    parameter.normal_(0, parameter.dim() == 1 ? 0.5 : 1 / std::sqrt(double{kChannels}), seed);
  }
  return module;
}

at::Tensor Tokens(int64_t tokens = kGrid.tokens()) {
  return at::randn({2, tokens, kChannels}, at::make_generator<at::CPUGeneratorImpl>(4));
}

struct Expected {
  at::Tensor weights;  // [B, heads, N], equation 2
  at::Tensor output;   // [B, N, C]
};

Expected Definition(const AttentionModule& module, const at::Tensor& x) {
  const auto parameters = module.named_parameters();
  const auto project = [&](const std::string& name, const at::Tensor& input) {
    at::Tensor output = at::matmul(input, parameters[name + ".weight"].t());
    const at::Tensor* bias = parameters.find(name + ".bias");
    return bias == nullptr ? output : output + *bias;
  };
  const at::Tensor key = project("k", x);
  const at::Tensor value = project("v", x);
  const int64_t dim = kChannels / kHeads;
  std::vector<at::Tensor> weights, gated;
  for (int64_t head = 0; head < kHeads; ++head) {
    const at::Tensor k = key.narrow(2, head * dim, dim);
    const at::Tensor gate = at::matmul(k, parameters["saliency"][head]) / std::sqrt(double(dim));
    weights.push_back(at::softmax(gate, 1));
    const at::Tensor context = (weights.back().unsqueeze(2) * k).sum(1, /*keepdim=*/true);
    gated.push_back(context * value.narrow(2, head * dim, dim));
  }
  return {at::stack(weights, 1), project("u2", project("u1", at::cat(gated, 2)) + key)};
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kFloat) - b).abs().max() / b.std()).item<double>();
}

TEST(KeyOnlyModuleTest, IsTheDefinitionInBothStates) {
  // One token, fewer and more than there are channels: the operator takes another path for each.
  for (const Grid& grid : {Grid{1, 1}, kGrid, Grid{40, 50}}) {
    for (const bool biases : {true, false}) {
      const std::shared_ptr<AttentionModule> module = Module(biases, grid);
      const at::Tensor x = Tokens(grid.tokens());
      const at::Tensor expected = Definition(*module, x).output.detach();
      EXPECT_LT(Difference(module->forward(x, grid).detach(), expected), 1e-5);
      module->Prepare({});
      EXPECT_LT(Difference(module->forward(x, grid), expected), 1e-5) << grid.tokens();
    }
  }
}

TEST(KeyOnlyModuleTest, Bf16IsWithinItsRounding) {
  const std::shared_ptr<AttentionModule> module = Module();
  const at::Tensor x = Tokens();
  const at::Tensor expected = Definition(*module, x).output.detach();
  module->Prepare({.dtype = at::kBFloat16});
  const at::Tensor output = module->forward(x.to(at::kBFloat16), kGrid);
  EXPECT_EQ(output.scalar_type(), at::kBFloat16);
  EXPECT_LT(Difference(output, expected), 3e-2);
}

TEST(KeyOnlyModuleTest, ItsMapIsTheSameForEveryQuery) {
  const std::shared_ptr<AttentionModule> module = Module();
  const at::Tensor x = Tokens();
  const at::Tensor expected = Definition(*module, x).weights.detach();
  const auto check = [&] {
    const at::Tensor map = module->Map(x, kGrid).detach();
    ASSERT_EQ(map.sizes(), at::IntArrayRef({2, kHeads, kGrid.tokens(), kGrid.tokens()}));
    for (const int64_t query : {int64_t{0}, kGrid.tokens() - 1}) {
      EXPECT_TRUE(at::allclose(map.select(2, query), expected, 1e-5, 1e-7));
    }
  };
  check();
  module->Prepare({});
  check();
}

TEST(KeyOnlyModuleTest, EveryParameterGetsTheDefinitionsGradient) {
  const std::shared_ptr<AttentionModule> module = Module();
  const at::Tensor x = Tokens();
  Definition(*module, x).output.square().sum().backward();
  std::vector<at::Tensor> expected;
  for (at::Tensor& parameter : module->parameters()) expected.push_back(parameter.grad().clone());
  module->zero_grad();
  module->forward(x, kGrid).square().sum().backward();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(Difference(module->parameters()[i].grad(), expected[i]), 1e-4)
        << module->named_parameters()[i].key();
  }
}

TEST(KeyOnlyModuleTest, SharesWhatItsProductsAndItsParametersHaveInCommon) {
  constexpr int64_t kMatrix = kChannels * kChannels, kRow = kChannels;
  const int64_t parameters = 4 * (kMatrix + kRow) + kRow;
  // gate, value, product, direct; the key's projection is the parameter itself.
  const int64_t products = kHeads * kChannels + 2 * (kMatrix + kRow) + kMatrix;
  const std::shared_ptr<AttentionModule> fp32 = Module();
  EXPECT_EQ(fp32->WeightBytes(), 4 * parameters);
  fp32->Prepare({});
  EXPECT_EQ(fp32->WeightBytes(), 4 * (parameters + products));
  const std::shared_ptr<AttentionModule> bf16 = Module();
  bf16->Prepare({.dtype = at::kBFloat16});
  EXPECT_EQ(bf16->WeightBytes(),
            2 * (parameters + products + kHeads * kChannels) + 4 * (kMatrix + kRow));
}

}  // namespace
}  // namespace fovea::models
