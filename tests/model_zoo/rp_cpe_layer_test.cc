// The layer against LinGlo's figure 2 in plain convolutions.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "model_zoo/layers/rp_cpe.h"

namespace fovea::models {
namespace {

constexpr int64_t kChannels = 40;

std::shared_ptr<RpCpe> Layer(int64_t branches, bool skip) {
  auto layer = std::make_shared<RpCpe>(
      RpCpeOptions{.channels = kChannels, .branches = branches, .skip = skip});
  const at::NoGradGuard no_grad;
  const at::Generator seed = at::make_generator<at::CPUGeneratorImpl>(1);
  for (at::Tensor& parameter : layer->parameters()) parameter.normal_(0, 0.3, seed);
  return layer;
}

at::Tensor Definition(const RpCpe& layer, const at::Tensor& map, bool skip) {
  const at::Tensor weight = layer.named_parameters()["weight"];
  const at::Tensor bias = layer.named_parameters()["bias"];
  at::Tensor sum = skip ? map : at::zeros_like(map);
  for (int64_t branch = 0; branch < weight.size(0); ++branch) {
    sum = sum + at::conv2d(map, weight[branch].unsqueeze(1), bias[branch], /*stride=*/1,
                           /*padding=*/1, /*dilation=*/1, /*groups=*/kChannels);
  }
  return sum;
}

at::Tensor Map() {
  return at::randn({2, 6, 5, kChannels}, at::make_generator<at::CPUGeneratorImpl>(2))
      .permute({0, 3, 1, 2});
}

double Difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kFloat) - b).abs().max().item<double>();
}

class RpCpeLayerTest : public ::testing::TestWithParam<std::tuple<int64_t, bool>> {};

TEST_P(RpCpeLayerTest, IsTheSumOfItsBranchesInBothStates) {
  const auto [branches, skip] = GetParam();
  const std::shared_ptr<RpCpe> layer = Layer(branches, skip);
  const at::Tensor expected = Definition(*layer, Map(), skip).detach();
  EXPECT_LT(Difference(layer->forward(Map()).detach(), expected), 1e-5);
  layer->Prepare({});
  EXPECT_LT(Difference(layer->forward(Map()), expected), 1e-5);
}

TEST_P(RpCpeLayerTest, PreparedItHoldsOneConvolutionInFp32) {
  const auto [branches, skip] = GetParam();
  const std::shared_ptr<RpCpe> layer = Layer(branches, skip);
  const at::Tensor expected = Definition(*layer, Map(), skip).detach();
  EXPECT_EQ(layer->WeightBytes(), branches * kChannels * 10 * 4);
  layer->Prepare({.dtype = at::kBFloat16});
  EXPECT_EQ(layer->WeightBytes(), kChannels * 10 * 4);
  EXPECT_TRUE(layer->parameters().empty());
  const at::Tensor output = layer->forward(Map().to(at::kBFloat16));
  EXPECT_EQ(output.scalar_type(), at::kBFloat16);
  EXPECT_LT(Difference(output, expected), 0.05);
}

TEST_P(RpCpeLayerTest, EveryBranchGetsTheDefinitionsGradient) {
  const auto [branches, skip] = GetParam();
  const std::shared_ptr<RpCpe> layer = Layer(branches, skip);
  Definition(*layer, Map(), skip).square().sum().backward();
  const at::Tensor expected = layer->named_parameters()["weight"].grad().clone();
  layer->zero_grad();
  layer->forward(Map()).square().sum().backward();
  EXPECT_LT(Difference(layer->named_parameters()["weight"].grad(), expected), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Forms, RpCpeLayerTest,
                         ::testing::Combine(::testing::Values(1, 4), ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param) ? "R" : "") +
                                  (std::get<0>(info.param) > 1 ? "P" : "") + "Cpe";
                         });

}  // namespace
}  // namespace fovea::models
