// What the bounds of rounding.h let pass, and what they do not: right results of any rounding, and
// the smallest mistakes that kernels make.
#include "tests/kernels/rounding.h"

#include <ATen/ATen.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/attention/key_only_attention/op.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/key_only_truth.h"
#include "tests/kernels/map_cases.h"
#include "tests/kernels/token_set_cases.h"

namespace fovea::kernels {
namespace {

constexpr int64_t kTokens = 197;

// What a mistake makes of a result, in units of its bound.
double ShareOf(const at::Tensor& output, const AttentionCase& c) {
  return ShareOfBound(output, Expected(c)).max().item<double>();
}

const std::vector<ActivationArguments>& Activations() {
  static const std::vector<ActivationArguments> all = {
      {"softmax"}, {"gelu"}, {"relu"}, {"star_relu", 0.8944, -0.4472}};
  return all;
}

class RoundingTest : public NumbersTest {};

TEST_P(RoundingTest, ADroppedKeyIsRefused) {
  const Tensors qkv = RandomTokens(1, 2, kTokens, 64, type());
  const auto without_last = [](const at::Tensor& t) { return t.narrow(-2, 0, kTokens - 1); };
  const AttentionCase dense = DenseCase(qkv);
  EXPECT_GT(ShareOf(dense.run({qkv[0], without_last(qkv[1]), without_last(qkv[2]), {}}), dense), 1);
  for (const ActivationArguments& activation : Activations()) {
    const Tensors inputs = RandomStaticKey(1, 2, kTokens, kTokens, 64, type());
    const AttentionCase c = StaticKeyCase(inputs, activation);
    EXPECT_GT(ShareOf(c.run({inputs[0], without_last(inputs[1]), without_last(inputs[2])}), c), 1)
        << activation.name;
  }
  // A row of the map sees nothing of the next: one of fourteen rows of a stripe.
  const Tensors maps = RandomMaps(1, 2, 14, 14, 32, type());
  const at::Tensor bias = at::zeros({2, 196, 196});
  const AttentionCase stripe = WindowCase(maps, {14, 14}, {0, 0}, bias);
  const at::Tensor masked = bias.clone();
  masked.select(2, 100).fill_(kMasked);
  EXPECT_GT(ShareOf(stripe.run({maps[0], maps[1], maps[2], masked}), stripe), 1);
}

TEST_P(RoundingTest, ATokenCountedTwiceInPlaceOfAnotherIsRefused) {
  const KeyOnlyCase c = RandomKeyOnlyCase(1, 2, kTokens, 64, type());
  const Rounded expected = ExpectedOf(c);
  const at::Tensor key = c.key.clone();
  key.select(2, 7).copy_(key.select(2, 8));
  const auto share = [&](const at::Tensor& output) {
    return ShareOfBound(output, expected).max().item<double>();
  };
  EXPECT_LE(share(KeyOnlyAttention(c.key, c.value, c.saliency)), 1);
  EXPECT_GT(share(KeyOnlyAttention(key, c.value, c.saliency)), 1);
}

TEST_P(RoundingTest, ANumberOfNeighboursOffByOneIsRefused) {
  const Tensors qkv = RandomTokens(1, 2, kTokens, 64, type());
  for (const int64_t topk : {1, 20, 98}) {
    const AttentionCase knn = WithMargin(KnnCase(qkv, topk));
    EXPECT_GT(ShareOf(KnnCase(qkv, topk + 1).run(knn.inputs), knn), 1) << topk;
    const AttentionCase exact = WithMargin(KnnExactCase(qkv, topk));
    EXPECT_GT(ShareOf(KnnExactCase(qkv, topk + 1).run(exact.inputs), exact), 1) << topk;
  }
}

at::Tensor LogitsOf(const Tensors& qkv, double scale) {
  return at::matmul(qkv[0].to(at::kDouble), qkv[1].to(at::kDouble).mT()) * scale;
}

TEST_P(RoundingTest, WeightsInBf16AreRefusedWhereFp32IsDue) {
  const Tensors qkv = RandomTokens(1, 2, kTokens, 64, type());
  const AttentionCase dense = DenseCase(qkv);
  const at::Tensor weights = at::softmax(LogitsOf(qkv, 0.125), -1).to(at::kBFloat16);
  const double share =
      ShareOf(at::matmul(weights.to(at::kDouble), qkv[2].to(at::kDouble)).to(type()), dense);
  if (type() == at::kBFloat16) {
    EXPECT_LE(share, 0.6);  // they are allowed there
  } else {
    EXPECT_GT(share, 1);
  }
}

TEST_P(RoundingTest, LogitsInBf16AreRefused) {
  // So large that rounding them shows beside rounding the weights.
  const Tensors qkv = RandomTokens(1, 2, kTokens, 64, type());
  const AttentionCase dense = DenseCase(qkv, {}, 1.0);
  const auto output = [&](const at::Tensor& logits) {
    const at::Tensor weights = at::softmax(logits.to(at::kDouble), -1);
    return at::matmul(weights, qkv[2].to(at::kDouble)).to(type());
  };
  EXPECT_LE(ShareOf(output(LogitsOf(qkv, 1.0)), dense), 0.5);
  EXPECT_GT(ShareOf(output(LogitsOf(qkv, 1.0).to(at::kBFloat16)), dense), 1);
}

INSTANTIATE_TEST_SUITE_P(Types, RoundingTest, VectorisedTypes(), TypeOf);

// As a key beside a window's padding has it.
TEST(RoundingInFp32Test, EqualTermsThatAreAddedOneByOneAreAccepted) {
  constexpr int kEqual = 63;
  // Of each, a sum near one loses all; of each product with the value, it takes twice as much.
  const float weight = 0.49f * 0x1p-23f, other = 1.04f;
  float products = 1.0f, weights = 1.0f;
  for (int i = 0; i < kEqual; ++i) {
    products += weight * other;
    weights += weight;
  }
  const at::Tensor query = at::ones({1, 1, 1, 1});
  const at::Tensor key = at::zeros({1, 1, kEqual + 1, 1});
  key.select(2, 0).fill_(-std::log(weight));
  const at::Tensor value = at::full_like(key, other);
  value.select(2, 0).fill_(1.0);
  const AttentionCase dense = DenseCase({query, key, value}, {}, 1.0);
  EXPECT_LE(ShareOf(at::full({1, 1, 1, 1}, products / weights), dense), 0.5);
}

// What bf16's own rounding hides is refused in fp32.
TEST(RoundingInFp32Test, AScaleOffByAThousandthIsRefused) {
  at::manual_seed(17);
  const double scale = 0.125, off = scale * 1.001;
  const Tensors qkv = RandomTokens(1, 2, kTokens, 64, at::kFloat);
  const AttentionCase dense = DenseCase(qkv, {}, scale);
  EXPECT_GT(ShareOf(DenseCase(qkv, {}, off).run(dense.inputs), dense), 1);
  for (const ActivationArguments& activation : Activations()) {
    const AttentionCase c =
        ConvStaticKeyCase(RandomConvStaticKey(1, 2, {14, 14}, 32, true, true, at::kFloat), {14, 14},
                          activation, scale);
    EXPECT_GT(ShareOf(ConvStaticKeyCase(c.inputs, {14, 14}, activation, off).run(c.inputs), c), 1)
        << activation.name;
  }
  const Tensors maps = RandomMaps(1, 2, 14, 14, 32, at::kFloat);
  const AttentionCase criss_cross = CrissCrossCase(maps, scale);
  EXPECT_GT(ShareOf(CrissCrossCase(maps, off).run(maps), criss_cross), 1);
}

TEST(AmbiguousRowsTest, AreSetAsideAndAtMostOneInAHundred) {
  at::manual_seed(17);
  const Tensors qkv = {at::randn({1, 1, 200, 8}), at::randn({1, 1, 20, 8}),
                       at::randn({1, 1, 20, 8})};
  const auto twins = [&](int64_t rows) {  // as many rows of which the 5th and the 6th key are equal
    AttentionCase c = WithMargin(KnnCase(qkv, 5));
    at::Tensor bias = at::zeros({200, 20});
    const at::Tensor logits = LogitsOf(c.inputs, 1 / std::sqrt(8.0))[0][0];
    const at::Tensor order = at::argsort(logits, -1, /*descending=*/true);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t fifth = order[row][4].item<int64_t>(), sixth = order[row][5].item<int64_t>();
      bias[row][sixth] = (logits[row][fifth] - logits[row][sixth]).item<double>();
    }
    c.inputs[3] = bias;
    const Rounded expected = Expected(c);
    EXPECT_EQ(expected.squares.eq(-kMasked).all(-1).sum().item<int64_t>(), rows);
    return std::pair(expected.value, expected);
  };
  const auto [two, of_two] = twins(2);
  ExpectWithinRounding(two.index_fill(2, at::tensor({0, 1}, at::kLong), 7.0).to(at::kFloat),
                       of_two);
  const auto [three, of_three] = twins(3);
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    ExpectWithinRounding(three.to(at::kFloat), of_three);
  }
  EXPECT_EQ(failures.size(), 1);
}

}  // namespace
}  // namespace fovea::kernels
