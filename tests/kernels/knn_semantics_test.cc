// Which keys k-NN attention takes where that is not a matter of rounding: ties, awkward
// distributions, rows without a finite logit. What it shares with the others:
// attention_promises_test.cc.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>

#include "kernels/attention/knn_attention/op.h"
#include "tests/kernels/helpers_share.h"
#include "tests/kernels/knn_truth.h"
#include "tests/kernels/variants.h"

namespace fovea::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class KnnSemanticsTest : public testing::TestWithParam<std::tuple<Variant, at::ScalarType>> {
 protected:
  void SetUp() override {
    at::manual_seed(5);
    at::set_num_threads(1);
    if (const char* why = CannotRun(variant())) GTEST_SKIP() << why;
  }

  const Variant& variant() const { return std::get<0>(GetParam()); }
  at::ScalarType type() const { return std::get<1>(GetParam()); }

  at::Tensor Run(const KnnArguments& c) const {
    const ScopedVariant scope(variant());
    return KnnAttention(c.query, c.key, c.value, c.topk, c.scale, c.bias);
  }

  // Queries and keys of zero: the logits are the bias; and the values are the identity: the output
  // holds the weights.
  KnnArguments BiasOnly(const at::Tensor& bias, int64_t topk) const {
    const int64_t keys = bias.size(-1);
    const int64_t queries = bias.dim() > 1 ? bias.size(-2) : 1;
    const auto options = at::TensorOptions().dtype(type());
    return {at::zeros({1, 1, queries, keys}, options),
            at::zeros({1, 1, keys, keys}, options),
            at::eye(keys, options).expand({1, 1, keys, keys}),
            topk,
            std::nullopt,
            bias};
  }

  // The weights with which each key takes part.
  at::Tensor WeightsOf(const at::Tensor& bias, int64_t topk) const {
    return Run(BiasOnly(bias, topk)).to(at::kDouble).squeeze(0).squeeze(0);
  }
};

TEST_P(KnnSemanticsTest, TiesGoToTheLowerIndex) {
  const at::Tensor row = at::tensor({1.0, 2.0, 1.0, 3.0, 1.0, 1.0, 0.0, 2.0, 1.0}, at::kFloat);
  const at::Tensor taken = WeightsOf(row, 5).gt(0);
  EXPECT_TRUE(
      taken.equal(at::tensor({1, 1, 1, 1, 0, 0, 0, 1, 0}, at::kInt).to(at::kBool).unsqueeze(0)))
      << taken;
}

TEST_P(KnnSemanticsTest, ARowOfEqualLogitsTakesTheFirst) {
  for (const int64_t topk : {1, 3, 40, 199, 200}) {
    const at::Tensor weights = WeightsOf(at::full({200}, 0.75), topk);
    EXPECT_EQ(weights.gt(0).sum().item<int64_t>(), topk);
    EXPECT_EQ(weights.narrow(-1, 0, topk).gt(0).sum().item<int64_t>(), topk);
  }
}

TEST_P(KnnSemanticsTest, IntegerLogitsWithManyTiesAreSelectedExactly) {
  for (const int64_t topk : {1, 20, 50, 98, 150, 196}) {
    const at::Tensor bias = at::randint(-4, 5, {33, 197}).to(at::kFloat);
    const KnnArguments c = BiasOnly(bias, topk);
    EXPECT_TRUE(Run(c).gt(0).equal(SelectedBy(c))) << "topk " << topk;
  }
}

TEST_P(KnnSemanticsTest, SelectionHoldsForAwkwardDistributions) {
  const at::Tensor uniform = at::rand({24, 300}, at::kDouble);
  const at::Tensor normal = at::randn({24, 300}, at::kDouble);
  const std::vector<std::pair<const char*, at::Tensor>> rows = {
      {"log-spaced", (uniform * 80 - 76).exp2()},
      {"log-spaced, both signs", (uniform * 80 - 76).exp2() * normal.sign()},
      {"log-spaced downwards", -(uniform * 100 - 90).exp2()},
      {"one far above", at::cat({normal, at::full({24, 1}, 50.0)}, 1)},
      {"one far below", at::cat({at::full({24, 1}, -1e30), normal}, 1)},
      {"two clusters", normal * 1e-3 + uniform.gt(0.5) * 20.0},
      {"nearly equal", 1.0 + (uniform * 40).round() * 0x1p-23},
      {"squares overflow", normal * 1e25},
      {"denormal", normal * 1e-40},
      {"sorted", std::get<0>(normal.sort())}};
  for (const auto& [name, bias] : rows) {
    const int64_t keys = bias.size(1);
    for (const int64_t topk : {int64_t{1}, int64_t{30}, keys / 2, keys - 1}) {
      const KnnArguments c = BiasOnly(bias.to(at::kFloat), topk);
      const at::Tensor taken = Run(c).gt(0);
      const at::Tensor selected = SelectedBy(c);
      // What is far below the largest weighs nothing, taken or not.
      const at::Tensor visible = MaskedSoftmax(c.bias->to(at::kDouble), selected).gt(1e-30);
      EXPECT_TRUE(taken.logical_and(visible).equal(visible)) << name << ", topk " << topk;
      EXPECT_FALSE(taken.logical_and(selected.logical_not()).any().item<bool>())
          << name << ", topk " << topk;
    }
  }
}

TEST_P(KnnSemanticsTest, ARowWithFewerFiniteLogitsThanTopkTakesThemAll) {
  at::Tensor row = at::full({50}, -kInfinity, at::kFloat);
  row[3] = 1.0;
  row[17] = -2.0;
  row[49] = 0.5;
  const at::Tensor weights = WeightsOf(row, 20);
  const at::Tensor expected = at::softmax(row.to(at::kDouble), 0).unsqueeze(0);
  EXPECT_TRUE(at::allclose(weights, expected, 0, type() == at::kFloat ? 1e-6 : 4e-3)) << weights;
}

TEST_P(KnnSemanticsTest, ARowWithoutAFiniteLogitIsZero) {
  at::Tensor bias = at::randn({4, 50});
  bias[2].fill_(-kInfinity);
  const at::Tensor weights = WeightsOf(bias, 10);
  EXPECT_TRUE(weights[2].eq(0).all().item<bool>());
  EXPECT_TRUE(at::allclose(weights.sum(-1)[1], at::ones({}, at::kDouble), 0, 2e-2));
}

TEST_P(KnnSemanticsTest, AnInfiniteLogitMakesItsRowNaNAsInSoftmax) {
  at::Tensor bias = at::randn({4, 50});
  bias[1][30] = kInfinity;
  const at::Tensor weights = WeightsOf(bias, 10);
  EXPECT_TRUE(weights[1].isnan().all().item<bool>());
  EXPECT_EQ(weights.isnan().any(-1).sum().item<int64_t>(), 1);
}

std::string NameOf(const testing::TestParamInfo<KnnSemanticsTest::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + c10::toString(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Implementations, KnnSemanticsTest,
                         testing::Combine(testing::ValuesIn(AllVariants()),
                                          testing::Values(at::kFloat, at::kBFloat16)),
                         NameOf);

TEST(KnnThreadsTest, TwoThreadsShareTheWork) {
  const Variant avx2{"", Implementation::kCpu, simd::Isa::kAvx2};
  if (const char* why = CannotRun(avx2)) GTEST_SKIP() << why;
  const ScopedVariant scope(avx2);
  const KnnArguments c = RandomCase(8, 4, 784, 64, 392, at::kFloat);
  EXPECT_GT(HelpersShare([&] { KnnAttention(c.query, c.key, c.value, c.topk); }), kSharedByTwo);
}

}  // namespace
}  // namespace fovea::kernels
